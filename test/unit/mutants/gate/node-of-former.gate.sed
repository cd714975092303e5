# A grant has the czxid of the gate's former node.
/^drop_node(/,/^}/ s/(ZkLockGateNode) {0};/(ZkLockGateNode) {.czxid = gate->node.czxid};/
/^zklock_gate_granted(/,/^}/ s/gate->node.czxid = czxid;/if (gate->node.czxid == 0)\n\t\t&/
