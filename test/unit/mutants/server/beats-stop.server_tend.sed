# Seed 15
# The client does not write while anything is held.
/^beat_at/,/^}/s/return tending->beat_at;/return used ? INT64_MAX : tending->beat_at;/
