# Seed 3761
# The client writes too seldom.
/^beat(/,/^}/s/now + zklock_proof_beat/now + 2 * zklock_proof_beat/
