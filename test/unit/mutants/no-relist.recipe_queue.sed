# Seed 2
# Somebody ahead has left: do nothing about it, if that is not the last.
/^contender_left/,/^}/ s/zklock_recipe_look(.*$/(void) 0;/
