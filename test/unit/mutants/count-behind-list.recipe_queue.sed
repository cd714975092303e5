# Seed 2
# Read the count after the list, not before it.
/^zklock_recipe_look/,/^}/ {
	/r->list = /d
	s/^{/{\n\tr->list = zklock_recipe_ask(r, ZKLOCK_DO_LIST, NULL, out);/
}
