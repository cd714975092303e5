# Seed 2
# A claim goes before its node.
/^zklock_claimtable_free/,/^}/s/if (!is_slot_idle(&claim->slot/if (false \&\& !is_slot_idle(\&claim->slot/
