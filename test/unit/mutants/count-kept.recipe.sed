# Seed 3794
# Use the count that was read first.
s/^\t\tr->permits = ev->size;/\t\tr->permits = r->permits > 0 ? r->permits : ev->size;/
