# Seed 3761
# The client writes too seldom.
s/now + zklock_proof_beat(timeout, often)/now + 2 * zklock_proof_beat(timeout, often)/
