# Seed 4
# An entry goes before its node.
/^zklock_claimtable_free/,/^}/s/if (last && !is_slot_idle(/if (last \&\& false \&\& !is_slot_idle(/
