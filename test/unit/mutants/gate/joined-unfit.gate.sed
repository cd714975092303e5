# Search readers
# Readers join others without knowing whether the node is still held.
/^zklock_gate_admits(/,/^}/ s/(terms->fit \&\& /(/
