# Seed 483
# Waits are not shown.
s/^\t\tzklock_claims_wait(attempt->claim, attempt->whole);/\t\t(void) attempt;/
