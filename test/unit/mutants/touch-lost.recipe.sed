# Seed 201190
# Take a lost touch for done after any later reply.
s/ && !r->stalled)/)/
