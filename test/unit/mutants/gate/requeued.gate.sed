# After the end of a session, request a new node without notice to the waiters.
/^zklock_gate_expired/,/^}/ s/^\tfail_all(.*$//
