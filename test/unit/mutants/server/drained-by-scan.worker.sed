# Seed 101
# A scan, which is not of one moment, finds that no lock is left.
/^end_if_drained/,/^}/s/if (zklock_workerattempts_count() > 0)/if (zklock_slots_are_busy())/
