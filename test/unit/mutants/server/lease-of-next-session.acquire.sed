# Seed 25914
# A lease is waited for without the mutex, which was of a former session.
/^await_lease/,/^}/s/lease->generation != a->mutex.generation/false/
