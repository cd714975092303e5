# Seed 33
# Grant one lease more.
s/ev->nchildren <= r->permits/ev->nchildren <= r->permits + 1/
