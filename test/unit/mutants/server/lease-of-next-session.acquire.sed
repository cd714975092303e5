# Seed 10295
# A lease is waited for without the mutex, which was of a former session.
/^try_once/,/^}/s/state->attempt.generation != state->mutex.generation/false/
