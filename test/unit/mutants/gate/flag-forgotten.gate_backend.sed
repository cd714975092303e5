# Seed 3235
# A commit sets no flag.
s/b->flag = b->generation;/(void) 0;/
