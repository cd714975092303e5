# Seed 177
# The client may be disconnected in the middle of its commit.
/^zklock_loss_pause/,/^}/s/pause_disconnect_on_loss();//
