# Scenario server-robbed-idle
# The worker looks whether its first node is there, and at no other one.
/^find_existing(/,/^}/{
/dlist_delete/,/dlist_push_tail/d
}
