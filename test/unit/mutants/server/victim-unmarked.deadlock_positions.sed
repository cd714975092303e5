# Seed 1398
# A backend that ends its wait for a deadlock does not say so.
/^zklock_deadlock_positions_give_in/,/^}/s/claim->procno == zklock_compat_procno()/false \&\& &/
