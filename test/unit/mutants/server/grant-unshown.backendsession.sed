# Seed 6
# A grant is not shown to other backends.
/^copy_results/,/^}/s/zklock_claims_report(/if (r->outcome.verdict != ZKLOCK_GRANTED)\n\t\t&/
