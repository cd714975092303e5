# Search readers
# Readers join others as long as there are any.
/^zklock_gate_admits(/,/^}/ s/terms->now - node->granted_at < terms->window/terms->now > 0/
