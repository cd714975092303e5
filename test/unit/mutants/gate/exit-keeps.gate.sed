# Who exits leaves its node to the server.
/^zklock_gate_keep/,/^}/s/ || !terms->fit ||$/ ||/
/^zklock_gate_keep/,/^}/s/terms->epoch == 0 || //
