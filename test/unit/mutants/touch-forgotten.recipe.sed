# Seed 24
# A downgrade touches no node.
s/if (r->touched\[0\] != '\\0')/if (false)/
