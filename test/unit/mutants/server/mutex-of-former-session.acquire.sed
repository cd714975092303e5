# Scenario lost-semaphore
# Who had the mutex in a former session waits for a lease in the present one.
/^await_lease/,/^}/s/(lease->outcome.verdict == ZKLOCK_PENDING ||/(/
