# Search readers
# A node that readers hold may be kept.
/^zklock_gate_permit_keep/,/^}/ s/ || gate->shared || / || /
