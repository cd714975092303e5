# Seed 495
# The scan follows a place to its entry by a second load: it may have none any more.
/^zklock_slots_scan/,/^}/s/^\(.*\)continue;/&\
		unlocked_entry = entry = unlocked_claim->slot.entry;/
