# All nodes of a place are taken for the one that is noted.
s/\[hash % ZKLOCK_LONGLIST_NODES\] == hash;/[hash % ZKLOCK_LONGLIST_NODES] != 0;/
