# Seed 346
# A backend lets go of what it has lost before it joins again, and its place with it.
/^zklock_gate_may_rejoin/,/^}/ s/(turn->lost || turn->generation != generation)/turn->lost \&\& generation == 0/
