# Seed 19476
# A commit that always asks takes any reply since it began for the answer.
/^confirm(/,/^}/s/while (!answered/while (zklock_session_routine->status()->confirmed < deadline - zklock_connect_timeout * ZKLOCK_NS_PER_MS/
