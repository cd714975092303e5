# The first pass is trusted.
/^judge_first_pass(/,/^}/ s/walk->phase = SYNC;/end_walk(walk, ZKLOCK_WALK_VICTIM);/
