# Seed 112
# Disconnect on loss stays on after the last lock is released.
/^zklock_cancel_release/,/^}/s/zklock_disconnect_pause();/(void) 0;/
