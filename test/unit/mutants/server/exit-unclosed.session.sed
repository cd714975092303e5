# Seed 6
# A backend that exits leaves its session to expire.
/^close_at_exit/,/^}/s/client != NULL && !keep_at_exit/client != NULL \&\& keep_at_exit/
