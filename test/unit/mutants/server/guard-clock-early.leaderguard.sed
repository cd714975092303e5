# Scenario guard-behind
# The clock is read before the wait for who writes the terms.
/^confirm(/,/^}/s/zklock_leaderguard_check();/bool confirmed = answered \&\& zklock_lease_is_confirmed(server->status()); &/
/^confirm(/,/^}/s/if (answered && zklock_lease_is_confirmed(server->status()))/if (confirmed)/
