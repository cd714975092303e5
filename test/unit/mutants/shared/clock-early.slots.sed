# A release reads the clock before the backend has the entry's lock.
/^zklock_slots_give_up/,/^}/s/LWLockAcquire(lock, LW_EXCLUSIVE);/(void) clock();\
	&/
