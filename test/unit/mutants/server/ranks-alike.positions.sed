# Seed 1580
# Backends at a gate have no order.
/^get_node_of_gate/,/^}/s/node->rank = .*;/node->rank = 0;/
