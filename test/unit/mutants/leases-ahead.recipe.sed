# Seed 33
# Who waits for a lease counts the free ones as if they were ahead.
/^process_leases/,/^}/ s/ahead = ev->nchildren - 1;/ahead = r->permits - ev->nchildren;/
