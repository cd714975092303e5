# Seed 73928
# A node that had gone before it could be watched was not downgraded.
s/r->only_shrinks &= .*;/(void) 0;/
