# Each change requests a new node if there are waiters.
/^settle(/,/^}/ s/gate->state == ZKLOCK_GATE_EMPTY && gate->first/gate->first/
