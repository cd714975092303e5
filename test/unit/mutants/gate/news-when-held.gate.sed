# A node that nobody holds does not go for another client.
/^zklock_gate_rival/,/^}/s/if (!is_granted(gate) ||/if (gate->holder == NULL ||/
