# Seed 644
# Only one of the readers of a node is told that it is revoked.
/^tell_revoked_at_gate(/,/^}/ s/turn = turn->next/turn = NULL/
