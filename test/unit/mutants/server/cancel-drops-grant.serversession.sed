# Seed 2
# An attempt that is given up keeps a grant that has come meanwhile.
/^abandon(/,/^}/s/^.release_slot(attempt->claim);/	(void) copy_results(attempt);\
	if (attempt->outcome.verdict != ZKLOCK_GRANTED)\
		release_slot(attempt->claim);/
