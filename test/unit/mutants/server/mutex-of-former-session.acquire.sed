# Scenario lost-semaphore
# Who had the mutex in a former session waits for a lease in the present one.
/^try_once(/,/^}/s/(state->attempt.outcome.verdict == ZKLOCK_PENDING ||/(/
