# Seed 329
# A lock is passed on though a reader came in beside it.
/^forbid_handover/,/^}/s/^.*zklock_slots_forbid_handover(held->claim);//
