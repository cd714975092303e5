# Seed 71
# Delete a simple lock's node without checking its owner.
s/(own->in_doubt && is_anybodys(own))/(own->in_doubt \&\& is_anybodys(own) \&\& false)/
s/is_anybodys(own) ? SIM_GET : SIM_DELETE/SIM_DELETE/
