# Seed 4
# An entry goes before its node.
/^zklock_claimtable_free/,/^}/s/if (last && !is_idle(/if (last \&\& false \&\& !is_idle(/
