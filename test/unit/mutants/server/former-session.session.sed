# Seed 31098
# What was created in a former session is taken for valid.
/^zklock_session_is_current/,/^}/s/generation == zklock_session_generation()/zklock_session_generation() != 0/
