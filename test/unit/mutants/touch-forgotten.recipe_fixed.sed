# Seed 18
# A downgrade tells nobody.
s/if (r->touched\[0\] != '\\0')/if (false)/
