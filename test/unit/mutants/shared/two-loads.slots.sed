# The scan loads the entry of a slot a second time, when there may be none any more.
/^zklock_slots_scan/,/^}/s/^\(.*\)continue;/&\
		unlocked_entry = entry = unlocked_claim->slot.entry;/
