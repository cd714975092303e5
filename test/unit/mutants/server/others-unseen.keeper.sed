# Seed 415
# Those that a list shows are ignored.
/^zklock_keeper_process_list/,/^}/s/if (others)/if (others \&\& message->rc != ZKLOCK_RC_OK)/
/^zklock_keeper_process_list/,/^}/s/ \&\& !others);/);/
