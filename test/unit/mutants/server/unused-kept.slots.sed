# Seed 76
# A node is kept however long nobody uses it.
/^zklock_slots_check_kept/,/^}/s/if (any || unused ||/if (any ||/
