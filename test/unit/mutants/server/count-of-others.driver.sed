# Seed 329
# The watch on a count that others wait for is removed.
/^zklock_driver_is_watching/,/^}/s/driver->count != NULL/false/
