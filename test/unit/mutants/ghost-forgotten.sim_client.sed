# Leave: a create whose reply was lost has made no node.
s/else if (reply->reply != ZKLOCK_LOST)/else/
