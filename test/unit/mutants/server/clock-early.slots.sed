# Seed 4
# A backend reads the clock before it has the lock of the entry that it gives up.
s/^#define TRUST .*/&\
\
static int64 early;\
\
static int64_t\
read_early(void)\
{\
	return early;\
}/
/^zklock_slots_give_up/,/^}/{
	s/LWLockAcquire(lock, LW_EXCLUSIVE);/early = clock();\
	&/
	s/give_up(claim, lease, clock)/give_up(claim, lease, read_early)/
}
