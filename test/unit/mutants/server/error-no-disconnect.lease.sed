# Seed 474
# An error that names a lost lock does not disconnect the client.
/^zklock_lease_note_raised(/,/^}/s/zklock_clientsocket_shut();//
