# Seed 1447
# A question that was asked during the answer to another one is not seen.
/^zklock_slots_answer/,/^}/s/if (slot->asked != question)/if (false)/
