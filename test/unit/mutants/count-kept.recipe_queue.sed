# Go by the count as it was read first.
s/^\t\tr->leases = ev->size;/\t\tr->leases = r->leases > 0 ? r->leases : ev->size;/
