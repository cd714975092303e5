# A node is granted whether or not it is watched for revocation.
/^zklock_gate_regrant/,/^}/s/ || node->revocable != turn->revocable ||$/ ||/
