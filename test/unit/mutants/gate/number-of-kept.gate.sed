# The grants of a node that was kept are numbered from 0 again.
/^zklock_gate_keep/,/^}/s/gate->state = ZKLOCK_GATE_KEPT;/gate->state = ZKLOCK_GATE_KEPT; node->next_number = 0;/
