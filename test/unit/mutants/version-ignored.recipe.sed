# Seed 40
# Ignore that a node was written to before its watch.
s/else if (ev->version > 0)/else if (false)/
