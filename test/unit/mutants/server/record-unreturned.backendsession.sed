# Scenario deadlock-cut-own
# A record's walk does not learn that its connection is back.
s/^\tzklock_deadlock_walker_check_session(.*//
