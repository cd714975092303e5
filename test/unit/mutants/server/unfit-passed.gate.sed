# Seed 16571
# Hand a lock over without knowing whether it is still held.
s/next != NULL && fit &&/next != NULL \&\& (fit || window > 0) \&\&/
