# Seed 2
# Do nothing when a contender ahead has left, unless it was the last.
/^contender_left/,/^}/ s/list_queue(.*$/(void) 0;/
