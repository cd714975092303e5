# A node that is kept outlives its session.
/^zklock_gate_expired/,/^}/s/if (gate->state == ZKLOCK_GATE_EMPTY ||/if (gate->state == ZKLOCK_GATE_EMPTY || gate->state == ZKLOCK_GATE_KEPT ||/
