# Seed 1
# Pass a lock on, and do not say so.
/^zklock_gate_release/,/^}/ s/^\t\t\ttell(next, arg);$//
