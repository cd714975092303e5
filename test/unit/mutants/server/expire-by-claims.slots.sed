# Seed 12407
# The gate of a claim that has ended does not end with its session.
/^zklock_slots_expire/,/^}/s/if (lock == NULL)/if (claim->ended \&\& lock != NULL)\
		{\
			LWLockRelease(lock);\
			continue;\
		}\
		&/
