# Never hand a lock over again after a node of it had a reader's node.
/^drop_node/,/^}/ s/(ZkLockGateNode) {0};/(ZkLockGateNode) {.handover_forbidden = gate->node.handover_forbidden};/
