# Seed 54
# The client may be disconnected in the middle of its commit.
/^zklock_cancel_pause/,/^}/s/zklock_disconnect_pause();//
