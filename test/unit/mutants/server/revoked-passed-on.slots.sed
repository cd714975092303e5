# Seed 148
# A node that is revoked is passed on.
/^tell_revoked_at_gate/,/^}/ s/zklock_gate_forbid_handover(.*;/;/
