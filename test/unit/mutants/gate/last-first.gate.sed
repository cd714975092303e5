# Pass a lock on to who came last.
/^zklock_gate_leave/,/^}/ s/ZkLockTurn \*next = gate->first;/ZkLockTurn *next = gate->last;/
