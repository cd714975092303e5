# Seed 2
# Who waits for a session is not woken when there is one.
/^zklock_sessionstate_publish(/,/^}/s/zklock_sessionstate_wake_listeners();/;/
