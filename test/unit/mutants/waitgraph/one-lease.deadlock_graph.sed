# Seed 71
# A waiter for a lease is stuck with one of the holders.
/^is_position_stuck(/,/^}/ s/p->others > 1 ? p->others : 1/p->others > 1 ? 1 : 1/
