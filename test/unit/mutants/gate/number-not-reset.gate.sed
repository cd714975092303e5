# Seed 1
# Continue numbers from node to node.
s/grant(gate, turn, generation, czxid, 0);/grant(gate, turn, generation, czxid, (int64_t) serial - 1);/
