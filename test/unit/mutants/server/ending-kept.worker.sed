# Seed 178
# Nodes are kept in a session that is about to end.
/^is_usable/,/^}/s/ending_since == 0/true/
