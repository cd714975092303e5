# The worker is woken before the request is posted.
/^request_changed/,/^}/{
	/zklock_slots_post(slot);/d
	s/zklock_sessionstate_wake_worker();/&\
	zklock_slots_post(slot);/
}
