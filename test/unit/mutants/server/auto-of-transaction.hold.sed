# Seed 98
# With 'auto', a lock of transaction scope is enough to disconnect the client.
/^zklock_hold_changed/,/^}/s/hold->session_count == 0/false/
/^zklock_hold_taken/,/^}/s/scope != ZKLOCK_SESSION || //
