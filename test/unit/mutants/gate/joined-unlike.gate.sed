# Search readers
# A reader whose lock can be revoked joins others whose locks cannot.
/^zklock_gate_admits(/,/^}/ s/node->revocable != turn->revocable/turn == NULL/
