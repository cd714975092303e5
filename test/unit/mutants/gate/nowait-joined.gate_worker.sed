# The node's attempt does not wait if the first who wanted it did not.
/^begin(/,/^}/ s/place->dir, NULL, false)/place->dir, NULL,\n\t\t\t\t\t\t place->gate.first->nowait)/
