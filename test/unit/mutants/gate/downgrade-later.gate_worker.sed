# Seed 2952
# Create a reader's node under a lock that was lost with its session.
s/slot->from_generation != s->generation)/slot->from_generation > s->generation)/
