# Seed 84
# Leave: a create whose reply was lost has made no node.
/^node_created/,/^}/ s/ || reply->reply == ZKLOCK_LOST ||/ ||/
