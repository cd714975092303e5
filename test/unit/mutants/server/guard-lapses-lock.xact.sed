# Scenario guard-behind-own
# Locks are not looked at again after the check of guards.
/^confirm_holds(/,/^}/s/zklock_lease_has_lapsed()/false/
