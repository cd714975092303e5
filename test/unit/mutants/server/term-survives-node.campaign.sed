# Scenario guard-robbed
# A term goes on after others have deleted its node.
/^end_of_term(/,/^}/s/zklock_slots_is_node_deleted(c->claim) ?/false ?/
