# Seed 3235
# The old session is closed, and a new one begun, whoever commits.
/^wait_for_flags/,/^}/ s/if (somebody_commits(s))/if (somebody_commits(s) \&\& false)/
