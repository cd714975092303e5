# Seed 1337
# A timeout does not check for a grant.
/^time_out/,/^}/ s/if (claim->turn.verdict != ZKLOCK_PENDING)/if (false)/
