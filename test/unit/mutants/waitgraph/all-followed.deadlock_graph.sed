# Seed 2302
# The second search follows those that are not stuck, too.
s/(graph->only_stuck && !vertex->stuck)/(false \&\& !vertex->stuck)/
