# Scenario deadlock-cut-own
# A record is given up if there is no memory for the request that makes its parent.
/case ZKLOCK_RC_NO_NODE:/,/break;/s/fail_walk(walker)/give_up(walker)/
