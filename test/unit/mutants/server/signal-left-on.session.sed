# Seed 108
# Cancel on loss is not turned off.
/^zklock_session_cancel_on_loss/,/^}/s/if (client != NULL)/if (client != NULL \&\& on)/
