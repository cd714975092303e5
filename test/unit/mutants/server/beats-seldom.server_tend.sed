# Seed 27
# The client writes too seldom.
/^beat(/,/^}/s/now + zklock_proof_beat/now + 3 * zklock_proof_beat/
