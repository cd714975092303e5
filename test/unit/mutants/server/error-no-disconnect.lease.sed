# Seed 301
# An error that names a lost lock does not disconnect the client.
/^raise_loss(/,/^}/s/if (zklock_lease_is_doubtful(hold))/if (false)/
