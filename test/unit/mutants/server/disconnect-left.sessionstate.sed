# Seed 1046
# A process that exits leaves the next one with its number to be disconnected.
/^reset_backend/,/^}/s/zklock_sessionstate_disconnect_on_loss(false);//
