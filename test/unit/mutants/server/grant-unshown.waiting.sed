# Seed 1
# A grant is not shown to other backends.
s/^\tzklock_claims_granted(.*/\t(void) node;/
