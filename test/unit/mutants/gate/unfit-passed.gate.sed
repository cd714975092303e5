# Seed 58
# Pass a lock on without knowing whether it is still held.
s/next != NULL && fit &&/next != NULL \&\& (fit || window > 0) \&\&/
