# Seed 58
# Pass a lock on although the lease has lapsed.
/^release(/,/^}/ s/ && gate_is_fresh(s);/;/
