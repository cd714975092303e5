# Seed 3
# A claim is changed after it may have been freed.
/^zklock_slots_end_claim/,/^}/s/zklock_claimtable_free(claim);/&\n\tclaim->changes++;/
