# A kept node is granted though the session may be over.
/^zklock_gate_regrant/,/^}/s/ || !terms->fit ||$/ ||/
