# Seed 6971
# Go by the count as it was read first.
s/^\t\tr->permits = ev->size;/\t\tr->permits = r->permits > 0 ? r->permits : ev->size;/
