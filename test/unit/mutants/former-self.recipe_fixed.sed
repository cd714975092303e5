# Seed 202
# Take the node of an attempt before this for ours.
s/ && ev->has_prefix)/)/
