# Seed 285
# Who waits for a confirmation is not woken by the end of the session.
/^zklock_sessionstate_end(/,/^}/s/zklock_sessionstate_wake_listeners();/;/
