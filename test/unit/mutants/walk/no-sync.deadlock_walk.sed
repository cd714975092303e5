# Seed 2
# The second pass follows without a sync.
/^judge(/,/^}/ s/walk->phase = SYNC;/walk->phase = READ_AGAIN;/
