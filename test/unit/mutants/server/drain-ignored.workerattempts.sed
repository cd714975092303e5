# Seed 1
# Attempts that were removed count still.
/^zklock_workerattempts_count/,/^}/s/hash_get_num_entries(attempts)/hash_get_num_entries(attempts) + 1/
