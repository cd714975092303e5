# Hand a lock over to the last waiter.
/^grant_first(/,/^}/ s/turn = gate->first;/turn = gate->state == ZKLOCK_GATE_HELD ? gate->last : gate->first;/
