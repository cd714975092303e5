# The report that a node was deleted is ignored.
/^zklock_gate_node_deleted(/,/^}/ s/if (!is_granted(gate) ||/if (is_granted(gate) ||/
