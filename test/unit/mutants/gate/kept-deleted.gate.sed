# The deletion of a node that nobody holds is ignored.
/^zklock_gate_node_deleted/,/^}/s/if (!is_granted(gate) ||/if (gate->holder == NULL ||/
