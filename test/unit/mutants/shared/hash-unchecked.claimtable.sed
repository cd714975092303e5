# A reused slot is accessed under the lock of its former entry.
/^zklock_claimtable_lock(/,/^}/s/used && unlocked->hash == hash/used/
