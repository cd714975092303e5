# Seed 2
# A new worker scans before it can be woken.
/^zklock_worker_main/,/^}/s/^.zklock_sessionstate_worker_starts(.*//
/^main_loop/,/^}/{
	s/^.bool.*draining = false;/&\
	bool		started = false;/
	s/^.*if (end_if_drained())/		if (!started)\
			zklock_sessionstate_worker_starts(zklock_clock_now());\
		started = true;\
&/
}
