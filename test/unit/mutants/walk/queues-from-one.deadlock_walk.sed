# Queues are numbered from 1.
/^get_queue/,/^}/ s/walk->nqueues++/++walk->nqueues/
