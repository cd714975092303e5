# Seed 76
# The count has changed: ignore that.
/ev->request == r->count/,/return;/ s/zklock_recipe_list(.*;/(void) 0;/
