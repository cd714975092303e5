# Seed 2
# Memory is allocated for a release, also at the end of a transaction.
/^release_slot/,/^}/s/^.refresh();/&\
	(void) palloc(1);/
