# Scenario revoke-release
# Cancel on loss stays on while a revocable lock is released, if others are held.
/^zklock_cancel_release/,/^}/s/!hold->revocable/hold->revocable/
/^zklock_cancel_release/,/^}/s/is_node_deleted == NULL/is_node_deleted != NULL/
