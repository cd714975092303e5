# Scenario deadlock-cut
# A walk that a lost connection has interrupted is not begun again.
s/walker->lost && status->state == ZKLOCK_CLIENT_CONNECTED/false \&\& status->state == ZKLOCK_CLIENT_CONNECTED/
