# Scenario disconnect-auto
# A loss before the client relied on its lock is not told.
/^zklock_loss_relied_on(/,/^}/s/if (find_lost_hold() != NULL)/if (false)/
