# Seed 48308
# A node that was deleted before its lock is known to be held cancels nothing.
/^zklock_cancel_granted/,/^}/s/(deleted || revoked)/revoked/
