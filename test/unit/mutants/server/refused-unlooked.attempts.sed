# Seed 0
# A look at the owners counts for requests that are newer than it.
/^find_room/,/^}/s/!zklock_slots_was_left(slot, asked->wanted, updates)/updates == 0/
