# Seed 1
# A grant does not change the gate's state.
/^grant(/,/^}/ s/^\tgate->state = ZKLOCK_GATE_HELD;$//
