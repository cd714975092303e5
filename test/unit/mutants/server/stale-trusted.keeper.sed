# Scenario keep-stale
# Messages that were discarded are not missed.
/^zklock_keeper_update_epoch/,/^}/s/(stale || connects != connects_seen)/((stale \&\& false) || connects != connects_seen)/
