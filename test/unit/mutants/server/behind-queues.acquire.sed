# Seed 51
# A server that is behind waits for locks, and keeps others waiting.
/^acquire(/,/^}/s/zklock_catchup_before_lock(scope, rest(begun, ns));/;/
