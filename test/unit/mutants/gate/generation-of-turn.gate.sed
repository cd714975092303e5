# A hand-over does not pass the node's generation on.
/^give(/,/^}/ s/turn->generation = gate->node.generation;/if (gate->state == ZKLOCK_GATE_REQUESTED)\n\t\t&/
