# Seed 702
# Decide by a list although an earlier reply was lost.
s/if (r->stalled || r->create != 0)/if (r->create != 0)/
