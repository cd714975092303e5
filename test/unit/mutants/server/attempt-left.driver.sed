# Seed 2
# An attempt that is given up leaves its node.
/^zklock_driver_abandon/,/^}/s/zklock_zkclient_delete(node);/(void) 0;/
