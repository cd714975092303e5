# Seed 3
# A reader conflicts with no contender.
s/(a->reader && b->reader)/(a->reader || b->reader)/
