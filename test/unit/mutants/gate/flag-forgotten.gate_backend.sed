# Seed 3235
# A commit raises no flag.
s/b->flag = b->generation;/(void) 0;/
