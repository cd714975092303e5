# Seed 21260
# Take a touch that was lost for done, once any later reply has come.
s/ && !r->stalled)/)/
