# A grant does not change the gate's state.
/^give(/,/^}/ s/^\tgate->state = ZKLOCK_GATE_HELD;$//
