# Seed 100282
# A reader begins under a lock that was lost with its session.
/^process_slot/,/^}/s/if (request->generation != zklock_sessionstate_generation())/if (request->from[0] == 0 \&\&\
		request->generation != zklock_sessionstate_generation())/
