# Seed 1
# A backend that waits for a confirmation does not look for it.
/^confirm_by_worker/,/^}/s/if (zklock_slots_is_answered(/if (false \&\& zklock_slots_is_answered(/
