# A node is kept though a reader came in beside it.
/^zklock_gate_keep/,/^}/s/node->handover_forbidden)/false)/
