# Seed 97
# All backends at a gate are refused if the first one has no room.
/^report_to_gate(/,/^}/ s/outcome->verdict == ZKLOCK_TOO_MANY_NODES \&\&/false \&\&/
