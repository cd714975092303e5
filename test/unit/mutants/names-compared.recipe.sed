# Seed 2
# Order by whole names, including the prefix, instead of by number.
s/seq > r->outcome.seq)/strcmp(child, r->outcome.name) > 0)/
