# Seed 3682
# Do not mind that a node was written to before it could be watched.
s/ev->version > 0 && /false \&\& /
