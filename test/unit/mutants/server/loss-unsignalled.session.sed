# Seed 1629
# A loss does not cancel the statement that runs.
/^zklock_session_cancel_on_loss/,/^}/s/zklock_zkclient_signal_on_loss(client, ZKLOCK_SIGNAL_CANCEL, on);/(void) on;/
