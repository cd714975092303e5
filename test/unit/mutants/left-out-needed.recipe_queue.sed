# Seed 525
# Do not notice that the look-ahead that was left out has become the nearest.
/^zklock_recipe_left_out/,/^}/ s/zklock_recipe_look(.*$/(void) out;/
