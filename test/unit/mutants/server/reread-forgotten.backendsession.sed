# Seed 162
# A backend that stood still discards messages, and does not read the queue again.
s/^\t\t\tzklock_driver_reread(.*/\t\t\t(void) 0;/
