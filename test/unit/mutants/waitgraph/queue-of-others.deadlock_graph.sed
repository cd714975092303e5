# Seed 3
# A search passes other queues.
/^pass_queue(/,/^}/ s/ && graph->positions\[j\].queue == p->queue//
