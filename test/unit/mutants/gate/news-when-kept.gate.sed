# Who holds a lock is not told that another client has come.
/^zklock_gate_rival/,/^}/s/gate->node.rival = true;//
