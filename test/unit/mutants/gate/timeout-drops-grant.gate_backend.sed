# Seed 1337
# A timeout does not look again.
/^time_out/,/^}/ s/if (claim->turn.verdict != ZKLOCK_PENDING)/if (false)/
