# Seed 285
# A term is known by its path only.
/^is_current(/,/^}/s/return leader->row.leading == ZKLOCK_LEADING &&.*/return leader->row.leading == ZKLOCK_LEADING;/
