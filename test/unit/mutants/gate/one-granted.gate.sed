# Search readers
# Only one of the readers that wait is granted the node.
/^zklock_gate_granted(/,/^}/ s/while (gate->shared \&\& /while (false \&\& /
