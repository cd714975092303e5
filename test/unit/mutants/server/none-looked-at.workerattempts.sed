# Scenario server-robbed-idle
# The worker never looks by itself whether its nodes are there.
/^zklock_workerattempts_check_nodes(/,/^}/s/attempt = find_existing();/attempt = NULL;/
