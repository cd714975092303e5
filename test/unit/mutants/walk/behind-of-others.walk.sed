# Seed 6
# A walk counts the locks behind other processes.
/^parse_node(/,/^}/ s/ && record != walk->self/ \&\& false/
