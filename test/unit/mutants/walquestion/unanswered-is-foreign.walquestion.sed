# Seed 1
# A server that has not answered yet counts as a copy.
s/kept < 0 || !wait/kept >= 0 \&\& !wait/
