# Seed 106
# The worker ends its session although nodes are being deleted.
/^end_if_drained/,/^}/s/ || is_deleting())/)/
