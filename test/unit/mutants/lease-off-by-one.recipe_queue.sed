# Seed 68
# Let in one more.
s/ev->nchildren <= r->permits/ev->nchildren <= r->permits + 1/
