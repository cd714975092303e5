# Seed 2
# A change of the session's status is not counted, so that processes that have a copy keep it.
/^zklock_sessionstate_publish(/,/^}/s/pg_atomic_write_u32(&shared->changes.*/;/
