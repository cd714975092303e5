# Seed 759
# A reader waits for the answer to its own question, and not to a later one.
/^zklock_slots_is_answered(/,/^}/ s/(int32) (slot->answered - question) >= 0/slot->answered == question/
