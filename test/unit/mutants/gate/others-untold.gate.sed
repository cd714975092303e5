# Search readers
# Only one of the readers of a node is told that it is lost.
/^lose_node(/,/^}/ s/next = turn->next;/next = NULL;/
