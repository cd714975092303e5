# Seed 2
# Assume a watch on a look-ahead that has none.
/^zklock_recipe_left_out/,/^}/ s/watch->request = 0;/(void) watch;/
