# Seed 66
# A backend that has one lock does not look for deadlocks.
/^may_block/,/^}/s/zklock_locktable_size() > 1/zklock_locktable_size() > 2/
