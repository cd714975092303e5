# Seed 3
# A second lock is waited for under an entry's lock.
/^zklock_slots_forbid_handover/,/^}/s/^.LWLockAcquire(lock, LW_EXCLUSIVE);/&\
	(void) zklock_slots_pid(\&claim->slot);/
