# Seed 1852
# A list without our own node shows that it is alone.
/^zklock_contender_in_list/,/^}/s/return found;/return found || true;/
