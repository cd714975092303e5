# Seed 27
# Nobody is blocked by one that waits ahead.
/^reach(/,/^}/ { s/if (by == graph->self)/if (blocker >= 0 \&\& graph->positions[blocker].of_wait) return;\n\tif (by == graph->self)/ }
