# Search readers
# The first reader that leaves takes the node with it.
/^zklock_gate_release(/,/^}/ s/held \&\& gate->holder == NULL/held/
