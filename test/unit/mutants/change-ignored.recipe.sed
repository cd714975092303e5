# Seed 8
# A watch that fired for a change is used up: forget to look again.
/case ZKLOCK_EV_CHANGED:/,/break;/ s/list_queue(.*;/(void) 0;/
