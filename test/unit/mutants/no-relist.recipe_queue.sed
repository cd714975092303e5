# Somebody ahead has left: do nothing about it, if that is not the last.
/^contender_left/,/^}/ s/r->list = zklock_recipe_ask(.*$/(void) 0;/
