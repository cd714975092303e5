# Seed 74
# Who does not want to wait waits for a node that its server may keep.
s/deadline = Min(deadline, now + ZKLOCK_YIELD_MS .*/deadline = ZKLOCK_NEVER;/
