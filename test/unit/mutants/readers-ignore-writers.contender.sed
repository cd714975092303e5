# Seed 3
# A reader conflicts with nobody.
s/(a->reader && b->reader)/(a->reader || b->reader)/
