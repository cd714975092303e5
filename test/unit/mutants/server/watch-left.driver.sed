# Seed 19
# An attempt that is given up leaves its watches.
/^zklock_driver_abandon/,/^}/s/^\t*unwatch_slot(.*nearest);//
