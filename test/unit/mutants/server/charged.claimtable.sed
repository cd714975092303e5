# Seed 62
# Nodes that the server keeps are charged to who used them last.
/^zklock_claimtable_free/,/^}/s/if (entry->gate.state == ZKLOCK_GATE_KEPT)/if (false)/
