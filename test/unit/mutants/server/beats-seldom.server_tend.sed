# Seed 27
# The client writes too seldom.
/^next_beat/,/^}/s/return zklock_proof_beat(tending->timeout, often);/return 4 * zklock_proof_beat(tending->timeout, often);/
