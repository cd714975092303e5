# Seed 4
# Continue numbers from node to node.
s/gate->node.next_number = 0;/gate->node.next_number = (int64_t) serial - 1;/
