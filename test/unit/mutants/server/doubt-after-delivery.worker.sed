# Seed 77
# Messages are processed before the doubt about earlier ones is known.
/^main_loop/,/^}/{
	/^		zklock_keeper_update_epoch(is_usable(), stale);/d
	s/^		zklock_workerattempts_deliver(stale);/&\
		zklock_keeper_update_epoch(is_usable(), stale);/
}
