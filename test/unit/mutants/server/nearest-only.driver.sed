# Seed 113803
# When the nearest contender has gone, who is ahead is not known any more.
/^zklock_driver_nearest/,/^}/s/r->nearest.request != 0 ? &r->nearest : &r->lookahead/\&r->nearest/
