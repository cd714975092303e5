# Seed 48
# Only the nearest blocker counts.
/^pass_queue(/,/^}/ s/^\(\t\t\t\)reach(.*/\1{ reach(graph, p->process, ahead->process, i, j); return; }/
