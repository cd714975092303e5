# Seed 8
# Hand a lock over to the last waiter.
/^zklock_gate_release/,/^}/ s/ZkLockTurn \*next = gate->first;/ZkLockTurn *next = gate->last;/
