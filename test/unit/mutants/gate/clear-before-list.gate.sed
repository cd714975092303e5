# A node counts as alone as soon as a list is asked for.
/^zklock_gate_ask_look/,/^}/s/node->look++;/&\
	node->alone_epoch = terms->epoch;\
	node->alone_at = terms->now;/
