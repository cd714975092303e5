# A backend that has lost a lock releases the hold of another one.
/^zklock_gate_release/,/^}/ s/held = is_holder(turn);/held = turn->state == ZKLOCK_TURN_HOLDING;/
