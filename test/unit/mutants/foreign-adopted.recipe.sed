# Seed 30
# A node with our prefix is ours, whichever session owns it.
s/ && ev->owner == r->outcome.session_id)/)/
