# Seed 27
# An attempt does not end with its time.
s/^\tzklock_driver_time_out(.*//
