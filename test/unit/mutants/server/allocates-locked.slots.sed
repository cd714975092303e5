# Seed 1
# Memory is allocated under an entry's lock.
/^zklock_slots_request/,/^}/s/^.LWLockAcquire(lock, LW_EXCLUSIVE);/&\
	(void) palloc(1);/
