# Seed 76
# The count has changed: let that be.
/ev->request == r->count/,/return;/ s/zklock_recipe_look(.*;/(void) 0;/
