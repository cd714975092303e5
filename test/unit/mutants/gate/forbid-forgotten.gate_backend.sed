# Seed 3
# Create a reader's node without notice to the gate.
s/^\tzklock_gate_forbid_handover(.*$//
