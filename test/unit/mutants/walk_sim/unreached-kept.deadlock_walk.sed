# Seed 35714
# A record without a listed node is kept.
/^read_nodes(/,/^}/ s/understood && record == walk->self/understood/
