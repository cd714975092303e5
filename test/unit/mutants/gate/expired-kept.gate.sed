# The node of a session that is over is kept.
/^zklock_gate_expired(/,/^}/ s/gate->node.generation > generation/gate->node.generation >= generation/
