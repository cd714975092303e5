# Seed 1
# An entry is marked as not in use after it was removed.
/^zklock_claimtable_free/,/^}/{
	s/entry->slot.entry = NULL;/;/
	s/HASH_REMOVE, NULL);/&\n\t\tentry->slot.entry = NULL;/
}
