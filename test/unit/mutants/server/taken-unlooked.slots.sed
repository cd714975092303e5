# Seed 1
# The worker takes up what it has read without another look: the place may be free by then.
/^zklock_slots_take/,/^}/{
	s/^.LWLock.*lock = .*/	LWLock	   *lock = NULL;/
	s/^.if (lock == NULL)$/	slot->taken = serial;\
&/
	s/return false;/return true;/
}
