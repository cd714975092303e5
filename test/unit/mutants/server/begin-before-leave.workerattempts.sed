# Seed 1490
# A node is requested before the last one can be deleted.
/^process_slot/,/^}/s/if (attempt->creating)/if (attempt->creating \&\& false)/
