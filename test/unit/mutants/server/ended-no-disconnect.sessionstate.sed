# Scenario disconnect-worker
# The end of a session disconnects nobody who is idle.
/^zklock_sessionstate_end(/,/^}/s/signal < ZKLOCK_N_SIGNALS/signal < ZKLOCK_SIGNAL_DISCONNECT/
