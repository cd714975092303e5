# Seed 33986
# Begin a new session after a loss without a wait for commits.
/^wait_for_flags/,/^}/ s/if (is_committing(s))/if (s->session >= 0 \&\& sim_zk_session_alive(s->session) \&\&\n\t\tis_committing(s))/
