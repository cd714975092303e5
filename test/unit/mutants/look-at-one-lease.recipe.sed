# Seed 182
# A look at leases is refused for the first of them.
/^process_look_at_leases(/,/^}/ s/ev->nchildren < r->permits/ev->nchildren == 0/
