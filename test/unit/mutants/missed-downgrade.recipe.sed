# Seed 1951
# Assume that a node that was gone before its watch was not downgraded.
s/r->only_shrinks &= .*;/(void) 0;/
