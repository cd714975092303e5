# Seed 322
# Who wants a lost lock again waits for himself.
/^zklock_gate_join/,/^}/ s/if (turn == gate->holder)/if (turn == gate->holder \&\& false)/
