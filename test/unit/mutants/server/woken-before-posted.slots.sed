# Seed 3
# The worker is woken before there is anything for it to find.
/^request_changed/,/^}/{
	/zklock_slots_post(slot);/d
	s/zklock_sessionstate_wake_worker();/&\
	zklock_slots_post(slot);/
}
