# The end of a session ends a kept node of a later one: nobody holds it.
/^zklock_gate_expired(/,/^}/ s/(is_granted(gate) \&\& gate->node.generation/(gate->holder != NULL \&\& gate->holder->generation/
