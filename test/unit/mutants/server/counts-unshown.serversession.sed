# Seed 8
# A claim that finds room later does not get the counts of its lock.
/^connect_session(/,/^}/s/zklock_claims_count(hold->claim.*/;/
