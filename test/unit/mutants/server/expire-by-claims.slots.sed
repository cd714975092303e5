# Seed 1814
# The gate of a claim that has ended does not end with its session, nor with the next scan.
/^zklock_slots_expire(/,/^}/s/if (lock == NULL)/if (claim->ended \&\& lock != NULL)\
		{\
			LWLockRelease(lock);\
			continue;\
		}\
		&/
/^post_if_unserved/,/^}/s/ || is_former(slot) ||/ ||/
