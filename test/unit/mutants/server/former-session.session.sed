# Seed 14595
# What was created in a former session is taken for valid.
/^zklock_session_is_current/,/^}/s/number == zklock_session_serial()/zklock_session_serial() != 0/
