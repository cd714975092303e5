# Seed 1595
# A node that is deleted between its grant and its hold is not noticed.
/^zklock_lease_granted/,/^}/s/is_node_deleted(hold);/is_node_deleted(hold) \&\& false;/
