# Seed 712
# A kept node that is revoked stays.
/^tell_revoked_at_gate/,/^}/ s/if (zklock_gate_drop_kept(/if (false \&\& zklock_gate_drop_kept(/
