# Keep the node when there is no waiter left.
/^settle(/,/^}/ s/^\t\tdrop_node(gate);$/\t\t(void) 0;/
