# Seed 2
# Assume a watch on a look-ahead that has none.
/^zklock_recipe_left_out/,/^}/ s/free_slot(watch);/(void) watch;/
