# Search readers
# Readers join others though a writer waits.
/^zklock_gate_admits(/,/^}/ s/node->shut || //
