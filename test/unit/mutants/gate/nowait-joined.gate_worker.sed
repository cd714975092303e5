# Seed 1
# Do not wait with the node's attempt if its first backend did not want to wait.
/^begin(/,/^}/ s/slot->dir, NULL, false)/slot->dir, NULL,\n\t\t\t\t\t\t slot->gate.first->nowait)/
