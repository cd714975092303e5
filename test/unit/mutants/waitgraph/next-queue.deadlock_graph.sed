# Seed 71
# A search goes on in the next queue.
/^next_blocker(/,/^}/ s/ && graph->positions\[j\].queue == p->queue//
