# Seed 58
# Hand a lock over although the lease has lapsed.
/^release(/,/^}/ s/ && gate_is_fresh(s);/;/
