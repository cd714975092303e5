# Seed 3
# Pass a lock on to who came last.
/^zklock_gate_release/,/^}/ s/ZkLockTurn \*next = gate->first;/ZkLockTurn *next = gate->last;/
