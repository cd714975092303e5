# Seed 531
# A loss does not cancel the statement that runs.
/^zklock_session_signal_on_loss/,/^}/s/if (client != NULL)/if (client != NULL \&\& signal != ZKLOCK_SIGNAL_CANCEL)/
