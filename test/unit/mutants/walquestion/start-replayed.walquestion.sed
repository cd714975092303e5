# Seed 2
# The end of the record is not waited for.
s/position->end > replayed/position->start >= replayed + 1/
