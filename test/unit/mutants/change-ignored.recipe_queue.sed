# Seed 9
# A watch that fired for a change is used up: forget to look again.
/case ZKLOCK_EV_CHANGED:/,/break;/ s/zklock_recipe_list(.*;/(void) 0;/
