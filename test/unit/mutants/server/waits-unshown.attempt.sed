# Seed 66
# Waits are not shown.
s/^\tzklock_claims_wait(attempt->claim, attempt->whole);/\t(void) attempt->claim;/
