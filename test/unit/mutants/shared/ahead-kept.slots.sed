# Those ahead of a node that has gone count as ahead of the next one.
/^gate_changed/,/^}/s/= (ZkLockOutcome) {0};/= (ZkLockOutcome) {.ahead = entry->slot.outcome.ahead};/
