# Who waits is not told of a node ahead that may be kept.
/^mind_others/,/^}/s/turn->queued |= gate->node.yielding;/(void) 0;/
