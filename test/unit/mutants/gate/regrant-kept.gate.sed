# A backend that wants a lost lock again waits for itself.
/^zklock_gate_join/,/^}/ s/if (turn == gate->holder ||/if ((turn == gate->holder \&\& false) ||/
