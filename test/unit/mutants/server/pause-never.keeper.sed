# Seed 470
# Nodes are kept again at once after another client has ended that.
/^zklock_keeper_ended/,/^}/s/if (keeper->recalled)/if (false)/
