# Seed 16334
# The count has changed: list again, unless a list is already requested.
/number == &r->count/,/return;/ s/\tlist_queue(.*;/\tif (r->list == 0)\n\t\t\t&/
