# Seed 8010
# Who has begun another session to take a lock does not look for those that it had.
/^connect_session/,/^}/s/zklock_lease_check();/;/
/^begin(/,/^}/s/if (attempt->request.from != NULL)/if (false)/
