# Seed 2
# Assume a watch on a look-ahead that has none.
/^left_out/,/^}/ s/free_slot(watch);/(void) watch;/
