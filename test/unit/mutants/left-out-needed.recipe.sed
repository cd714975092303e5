# Seed 1029
# Do not notice that the unwatched look-ahead has become the nearest.
/^left_out/,/^}/ s/list_queue(.*$/(void) out;/
