# Seed 2952
# Make a reader's node under a lock that has gone with its session.
s/slot->from_generation != s->generation)/slot->from_generation > s->generation)/
