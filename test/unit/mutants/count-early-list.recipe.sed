# Seed 4393
# The count has changed: look again, unless a list is under way already.
/ev->request == r->count/,/return;/ s/\tzklock_recipe_look(.*;/\tif (r->list == 0)\n\t\t\t&/
