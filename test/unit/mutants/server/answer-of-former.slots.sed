# Seed 25
# The gate wants another node, but its slot says that this one is granted already.
/^gate_changed/,/^}/s/outcome = (ZkLockOutcome) {0};/outcome = (ZkLockOutcome) {.verdict = entry->slot.outcome.verdict};/
