# A lost node leaves the gate's state as it was.
/^drop_node(/,/^}/ s/gate->state = ZKLOCK_GATE_EMPTY;/if (gate->holder == NULL)\n\t\tgate->state = ZKLOCK_GATE_EMPTY;/
