# A grant that is reported again grants the lock to the next waiter, too.
/^is_awaited(/,/^}/ s/gate->state == ZKLOCK_GATE_REQUESTED &&/gate->first != NULL \&\&/
