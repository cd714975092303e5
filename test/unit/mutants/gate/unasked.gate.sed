# Nobody looks who else is there once the first list was read.
/^zklock_gate_ask_look/,/^}/s/node->look != node->looked)/node->look != 0)/
