# Seed 349
# Disconnect on loss stays on after the last lock is released.
/^zklock_loss_release/,/^}/s/pause_disconnect_on_loss();/(void) 0;/
