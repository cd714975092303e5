# Seed 74
# A walk that lacked memory is not repeated.
s/again = verdict == ZKLOCK_WALK_FAILED;/again = false;/
