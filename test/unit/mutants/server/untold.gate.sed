# Seed 8
# Hand a lock over without notice.
/^zklock_gate_release/,/^}/ s/^\t\t\ttell(next, arg);$//
