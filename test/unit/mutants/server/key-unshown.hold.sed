# Seed 19
# A lock that is also taken as an advisory lock is not shown as that.
/^\t\tzklock_claims_set_advisory(hold->claim, key);/d
