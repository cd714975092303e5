# Hand a lock over without notice.
/^grant_first(/,/^}/ s/^\ttell(turn, arg);$/\tif (gate->node.next_number <= 1)\n\t\ttell(turn, arg);/
