# Seed 1
# A new node for those who wait, when the session is over, and no word to them.
/^zklock_gate_expired/,/^}/ s/^\tfail_all(.*$//
