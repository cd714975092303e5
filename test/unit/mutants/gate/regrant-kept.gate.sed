# A backend that wants a lost lock again waits for itself.
/^zklock_gate_join/,/^}/ s/if (is_holder(turn))/if (is_holder(turn) \&\& false)/
