# Seed 2
# Read the count after the list, not before it.
/^list_queue/,/^}/ {
	/r->list = /d
	s/^{/{\n\tr->list = request(r, ZKLOCK_DO_LIST, NULL, out);/
}
