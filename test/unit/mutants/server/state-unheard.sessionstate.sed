# Seed 4
# Who waits for a session is not woken when there is one.
/^zklock_sessionstate_publish(/,/^}/s/wake_listeners();/;/
