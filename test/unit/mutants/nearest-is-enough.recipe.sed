# Seed 2
# When the nearest has gone, take the lock even if others are ahead.
s/^\tif (r->only_shrinks && r->outcome.ahead == 0)/\tif (r->only_shrinks \&\& (r->outcome.ahead == 0 || watch == \&r->nearest))/
