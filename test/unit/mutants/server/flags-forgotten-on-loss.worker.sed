# Seed 362
# Nobody waits for commits in a session that has ended by itself.
/^end_session/,/^}/s/^.wait_for_commits(generation);/	if (status->state == ZKLOCK_CLIENT_CONNECTED)\
	&/
