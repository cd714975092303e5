# Seed 2
# Never pass a lock on any more once one had a reader's node under it.
/^drop_node/,/^}/ s/^\tgate->handover_forbidden = false;$//
