# Seed 110
# An event that was lost is not missed.
/^zklock_keeper_update_epoch/,/^}/s/(stale || connects != connects_seen)/stale/
