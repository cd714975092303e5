# Seed 23
# Delete a simple lock's node without checking its owner.
s/(own->in_doubt && is_name_shared(own))/(own->in_doubt \&\& is_name_shared(own) \&\& false)/
s/is_name_shared(own) ? SIM_GET : SIM_DELETE/SIM_DELETE/
