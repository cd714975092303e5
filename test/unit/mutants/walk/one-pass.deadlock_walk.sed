# Seed 2
# The first pass is trusted.
/^judge(/,/^}/ s/walk->phase = SYNC;/end_walk(walk, ZKLOCK_WALK_VICTIM);/
