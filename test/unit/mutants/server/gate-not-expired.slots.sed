# Seed 59
# Those who wait at a gate are not told of the end of the session.
/^expire_gate/,/^}/s/zklock_gate_expired(/false \&\& zklock_gate_expired(/
