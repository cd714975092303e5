# Seed 1615
# The window begins when another client comes.
/^zklock_slots_rival/,/^}/s/^.if (zklock_gate_rival(/	if (slot->entry->gate.wanted == serial)\
		slot->entry->gate.node.granted_at = now;\
&/
