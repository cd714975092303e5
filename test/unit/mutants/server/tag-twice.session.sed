# Seed 19
# The tags of requests have 4 bits.
/^zklock_session_new_requester/,/^}/s/return last += ZKLOCK_REQUESTER_STEP;/return last = last % 15 + 1;/
