# Seed 8
# A backend that has lost a lock releases the hold of another one.
/^zklock_gate_release/,/^}/ s/^\tif (turn == gate->holder)$/\tif (gate->holder != NULL \&\& turn->generation != 0)/
