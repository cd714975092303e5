# Seed 33
# The count has changed: ignore that.
/ev->request == r->count/,/return;/ s/list_queue(.*;/(void) 0;/
