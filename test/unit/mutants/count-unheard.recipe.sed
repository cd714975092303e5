# Seed 33
# The count has changed: ignore that.
/number == &r->count/,/return;/ s/list_queue(.*;/(void) 0;/
