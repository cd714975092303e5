# A kept node is granted beyond its window before anybody has looked.
/^zklock_gate_regrant/,/^}/s/!zklock_gate_is_alone(gate, terms)/false/
