# Seed 2
# Order by whole names, prefix and all, instead of by number.
s/seq > r->seq)/strcmp(child, r->name) > 0)/
