# A session that is used is written to twice in two thirds of its timeout.
s/now + zklock_proof_beat(timeout, often)/now + 2 * zklock_proof_beat(timeout, often)/
