# Seed 1
# The node's attempt does not wait if the first who wanted it did not.
/^begin(/,/^}/ s/slot->dir, NULL, false)/slot->dir, NULL,\n\t\t\t\t\t\t slot->gate.first->nowait)/
