# Scenario all-robbed
# It does not matter that a node was deleted before it became a hold.
/^zklock_lease_granted/,/^}/s/zklock_lease_is_deleted(hold)/false/
