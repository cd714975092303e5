# Seed 2
# Take the look-ahead for watched that was left out.
/^zklock_recipe_left_out/,/^}/ s/watch->request = 0;/(void) watch;/
