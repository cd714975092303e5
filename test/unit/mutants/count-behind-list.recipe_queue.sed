# Seed 2
# Read the count after the list, not before it.
/^zklock_recipe_list/,/^}/ {
	/r->list = /d
	s/^{/{\n\tr->list = zklock_recipe_request(r, ZKLOCK_DO_LIST, NULL, out);/
}
