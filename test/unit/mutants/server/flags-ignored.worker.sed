# Seed 113
# The worker does not wait for commits before it closes a session.
/^wait_for_commits/,/^}/s/while (zklock_sessionstate_is_committing/while (false \&\& zklock_sessionstate_is_committing/
