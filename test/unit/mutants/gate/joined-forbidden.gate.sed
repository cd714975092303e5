# Search readers
# Readers join others whose lock was revoked.
/^zklock_gate_admits(/,/^}/ s/!node->handover_forbidden \&\&//
