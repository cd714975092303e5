# Seed 3
# Make a reader's node without a word to the gate.
s/^\tzklock_gate_forbid_handover(.*$//
