# A place that is used anew is taken with the lock of its former entry.
/^zklock_claimtable_lock(/,/^}/s/used && unlocked->hash == hash/used/
