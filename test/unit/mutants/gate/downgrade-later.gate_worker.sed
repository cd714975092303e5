# Make a reader's node under a lock that has gone with its session.
s/place->from_generation != s->generation)/place->from_generation > s->generation)/
