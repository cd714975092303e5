# Seed 3
# The grants of a node that was kept are numbered from 0 again.
/^zklock_gate_keep/,/^}/s/gate->holder = NULL;/gate->holder = NULL; node->next_number = 0;/
