# Seed 14
# The node's attempt does not wait if its first backend does not.
/^zklock_slots_read/,/^}/s/request->params.nowait = false;/(void) 0;/
