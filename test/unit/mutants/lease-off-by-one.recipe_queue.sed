# Let in one more.
s/ev->nchildren <= r->leases/ev->nchildren <= r->leases + 1/
