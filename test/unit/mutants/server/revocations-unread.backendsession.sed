# Seed 87
# The revocation of a lock in a backend's own session is not its reason to be cancelled.
/^revocations(/,/^}/s/return .*;/return node == NULL;/
