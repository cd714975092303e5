# Seed 9
# A lock that is also taken as an advisory lock is not shown as that.
/^\tzklock_claims_set_advisory(hold->claim, advisory);/d
