# Seed 595
# Backends at a gate have no order.
s/state->rank = zklock_gate_rank(turn);/state->rank = 0;/
