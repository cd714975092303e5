# Scenario disconnect-auto
# A loss before the client relied on its lock is not told.
/^zklock_disconnect_resume(/,/^}/s/if (find_lost_hold() != NULL)/if (false)/
