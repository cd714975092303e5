# A backend releases its lost hold before it joins again, and so loses its place.
/^zklock_gate_may_rejoin/,/^}/ s/(turn->lost || turn->generation != generation)/turn->lost \&\& generation == 0/
