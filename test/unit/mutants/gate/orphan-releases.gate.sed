# Seed 155
# Who has lost a lock gives back what others hold.
/^zklock_gate_release/,/^}/ s/^\tif (turn == gate->holder)$/\tif (gate->holder != NULL \&\& turn->generation != 0)/
