# Leave: a create whose reply was lost has made no node.
/^own_created/,/^}/ s/ || reply->reply == ZKLOCK_LOST ||/ ||/
