# Seed 421
# A list counts for ever.
s/^#define TRUST .*/#define TRUST PG_INT64_MAX/
