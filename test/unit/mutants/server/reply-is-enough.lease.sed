# Seed 871
# A commit that always asks takes any reply since it began for the answer.
/^confirm_lock(/,/^}/s/while (!answered/while (zklock_session_routine->status()->confirmed < deadline - zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS/
