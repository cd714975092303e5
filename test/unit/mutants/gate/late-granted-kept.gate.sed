# A node that nobody holds is taken for one that is not granted yet.
/^is_awaited(/,/^}/ s/gate->state == ZKLOCK_GATE_REQUESTED/gate->wanted != 0 \&\& gate->holder == NULL/
