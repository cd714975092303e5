# Seed 3235
# Close the old session and begin a new one without a wait for commits.
/^wait_for_flags/,/^}/ s/if (is_committing(s))/if (is_committing(s) \&\& false)/
