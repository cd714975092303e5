# Seed 1436
# The watch on the leases is left to the deletion of a node that may not exist.
/^zklock_driver_abandon/,/^}/s/unwatch(driver, driver->dir, true);/;/
