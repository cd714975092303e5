# Seed 24
# An attempt does not learn that its connection is back, or its session over.
s/^\t*zklock_driver_check_session(.*//
