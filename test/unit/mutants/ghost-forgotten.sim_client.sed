# Seed 368
# Leave: assume that a create without a reply has created no node.
/^node_created/,/^}/ s/ || reply->reply == ZKLOCK_LOST ||/ ||/
