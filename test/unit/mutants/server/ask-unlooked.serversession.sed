# Seed 7
# A backend that waits for a confirmation does not look for it.
/^await_answer/,/^}/s/if (zklock_slots_is_answered(/if (false \&\& zklock_slots_is_answered(/
