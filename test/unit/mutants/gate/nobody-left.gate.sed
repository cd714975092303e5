# Seed 5
# The node stands on when nobody is left.
/^settle(/,/^}/ s/^\t\tdrop_node(gate);$/\t\t(void) 0;/
