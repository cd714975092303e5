# Seed 4798
# A record without a listed node is kept.
/^read_nodes(/,/^}/ s/understood && record == walk->self/understood/
