# Scenario server-waits-robbed
# A node that was deleted before its grant was reported is not told to its holder.
/^report(/,/^}/s/if (outcome->verdict == ZKLOCK_GRANTED \&\& is_node_deleted(attempt))/if (false)/
