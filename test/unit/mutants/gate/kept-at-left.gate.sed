# What was known of a node that was kept is left when it is gone.
/^drop_node/,/^}/ s/(ZkLockGateNode) {0}/(ZkLockGateNode) {.kept_at = gate->node.kept_at}/
