# Seed 86
# Readers block readers.
/^blocks(/,/^}/ s/ahead->kind != ZKLOCK_POSITION_READER/true/
