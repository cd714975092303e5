# Seed 434
# Take the node of an earlier attempt for ours.
s/ && ev->has_prefix)/)/
