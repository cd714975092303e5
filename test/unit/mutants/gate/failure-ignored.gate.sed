# The failure of the wanted node's attempt is ignored.
/^zklock_gate_failed(/,/^}/ s/if (!is_awaited(gate, serial))/if (!is_awaited(gate, serial) || gate->first != NULL)/
