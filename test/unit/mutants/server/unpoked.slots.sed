# Seed 1
# The worker is not woken for a request: its scan finds it.
/^request_changed/,/^}/s/^.zklock_sessionstate_wake_worker();//
