# Seed 33986
# A session that has ended by itself is followed by a new one, whoever commits.
/^wait_for_flags/,/^}/ s/if (somebody_commits(s))/if (s->session >= 0 \&\& sim_zk_session_alive(s->session) \&\&\n\t\tsomebody_commits(s))/
