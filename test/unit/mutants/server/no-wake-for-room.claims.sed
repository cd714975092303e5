# Scenario keep-full
# Who finds no room for a claim does not tell the worker, which only keeps nodes in it.
/^zklock_claims_enter(/,/^}/s/zklock_sessionstate_wake_worker();/;/
