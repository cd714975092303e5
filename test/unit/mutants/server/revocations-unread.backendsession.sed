# Seed 24
# The revocation of a lock in a backend's own session is not its reason to be cancelled.
/^revocations(const/,/^}/s/zklock_zkclient_revocations(hold->node)/hold->revocations/
