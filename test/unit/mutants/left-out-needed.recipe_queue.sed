# Seed 525
# Do not notice that the unwatched look-ahead has become the nearest.
/^zklock_recipe_left_out/,/^}/ s/zklock_recipe_list(.*$/(void) out;/
