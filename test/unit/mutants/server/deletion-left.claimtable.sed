# Seed 1029
# A claim that is used again shows that its former node was deleted.
s/ = claim->node_deleted = / = /
