# Seed 6
# When the first of those who wait gives up, the node goes, whoever is behind.
/^zklock_gate_release/,/^}/ s/^\t\tdequeue(gate, turn);$/\t{\n\t\tif (turn == gate->first \&\& gate->holder == NULL)\n\t\t\tdrop_node(gate);\n&\n\t}/
