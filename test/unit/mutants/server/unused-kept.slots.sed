# Seed 84
# A node is kept however long nobody uses it.
/^zklock_slots_check_kept/,/^}/s/if (any || unused ||/if (any ||/
