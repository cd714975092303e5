# Seed 3682
# Ignore that a node was written to before its watch.
s/ev->version > 0 && /false \&\& /
