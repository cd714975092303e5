# Hand a lock over without knowing whether it is still held.
/^zklock_gate_release/,/^}/ s/gate->first != NULL \&\& fit \&\&/gate->first != NULL \&\& (fit || window > 0) \&\&/
