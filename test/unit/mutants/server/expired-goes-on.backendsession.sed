# Seed 6735
# The last lock of a backend is deleted in a session that is not its own.
/^delete_node/,/^}/s/if (zklock_session_is_current(hold->generation))/if (zklock_session_client() != NULL)/
