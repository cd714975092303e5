# Seed 2
# When the nearest has gone it is our turn, whoever else is ahead.
s/^\tif (r->only_shrinks && r->ahead == 0)/\tif (r->only_shrinks \&\& (r->ahead == 0 || watch == \&r->nearest))/
