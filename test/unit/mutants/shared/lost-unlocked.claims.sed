# A claim is changed without its entry's lock.
/^zklock_claims_lost/,/^}/s/\(entry_lock\) = lock(claim);/\1 = NULL;/
/^zklock_claims_lost/,/^}/s/LWLockRelease(entry_lock);/(void) entry_lock;/
