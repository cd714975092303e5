# Seed 19
# Readers are not shut out when a writer begins to wait.
/^make_way(/,/^}/ s/zklock_gate_shut(&other->gate);/;/
