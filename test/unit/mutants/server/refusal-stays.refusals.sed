# Seed 4
# No grant clears the bit of a refusal.
s/pg_atomic_fetch_and_u32(.*;/(void) 0;/
