# When the first waiter gives up, delete the node even if others wait behind it.
/^zklock_gate_release/,/^}/ s/^\t\tdequeue(gate, turn);$/\t{\n\t\tif (turn == gate->first \&\& gate->holder == NULL)\n\t\t\tdrop_node(gate);\n&\n\t}/
