# A node is granted whether or not it is watched for revocation.
/^zklock_gate_regrant/,/^}/s/ || node->revocable != terms->revocable ||$/ || node->kept_epoch != terms->epoch ||/
/^zklock_gate_regrant/,/^}/s/node->kept_epoch != terms->epoch || node/node/
