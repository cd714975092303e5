# A session that is used is written to twice in two thirds of its timeout.
/^next_beat/,/^}/s/return zklock_proof_beat(T, (\(.*\)) != 0);/return zklock_proof_beat(T, (\1) != 0) * 2;/
