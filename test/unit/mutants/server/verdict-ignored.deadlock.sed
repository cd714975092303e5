# Seed 8
# The result of a walk is not read.
s/^\tif (!walking)/\tif (walking || !walking)/
