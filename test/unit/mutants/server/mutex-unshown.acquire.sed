# Seed 60145
# Who has the mutex of a semaphore, in a session of its own, does not show that.
/^enter_semaphore(/,/^}/s/state->mutex.claim = .*/(void) state;/
