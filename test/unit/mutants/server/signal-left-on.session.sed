# Seed 126
# Cancel on loss is not turned off.
/^zklock_session_signal_on_loss/,/^}/s/if (client != NULL)/if (client != NULL \&\& (on || signal != ZKLOCK_SIGNAL_CANCEL))/
