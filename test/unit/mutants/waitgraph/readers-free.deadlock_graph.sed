# Seed 2
# A reader is not blocked by writers.
/^blocks(/,/^}/ s/ahead->kind != ZKLOCK_POSITION_READER/false/
