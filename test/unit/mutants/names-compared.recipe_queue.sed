# Seed 2
# Order by whole names, including the prefix, instead of by number.
s/seq > r->seq)/strcmp(child, r->name) > 0)/
