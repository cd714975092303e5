# Seed 19
# The tags of requests have 4 bits.
/^zklock_session_new_owner/,/^}/s/return last += ZKLOCK_OWNER_STEP;/return last = last % 15 + 1;/
