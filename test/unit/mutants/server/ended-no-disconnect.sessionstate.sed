# Scenario disconnect-worker
# The end of a session disconnects nobody who is idle.
/^zklock_sessionstate_end(/,/^}/s/send_request(backend, &backend->disconnect_on_loss);/;/
