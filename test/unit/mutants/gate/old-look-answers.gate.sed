# The answer to an earlier list counts for a later one.
/^zklock_gate_looked/,/^}/s/ || look != node->look)/)/
