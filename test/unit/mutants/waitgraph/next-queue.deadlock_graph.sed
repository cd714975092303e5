# Seed 71
# A search goes on in the next queue.
/^zklock_deadlock_graph_next_blocker(/,/^}/ s/ && positions\[j\].queue == p->queue//
