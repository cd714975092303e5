# Seed 1262
# A process that exits leaves the next one with its number to be disconnected.
/^reset_backend/,/^}/s/zklock_sessionstate_signal_on_loss(signal, false);/if (signal != ZKLOCK_SIGNAL_DISCONNECT)\n\t\t\t&/
