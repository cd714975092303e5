# Without its barrier, use_slot() may write the entry first, as it does here.
/^use_slot/,/^}/{
	/slot->hash = hash;/d
	s/slot->entry = entry;/&\
	pg_write_barrier();\
	slot->hash = hash;/
}
