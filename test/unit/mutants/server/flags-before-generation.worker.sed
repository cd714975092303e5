# Seed 1875
# The worker waits for commits before the generation is over, not after.
/^end_session/,/^}/{
	/^.wait_for_commits(generation);/d
	s/^.uint32.*generation = zklock_sessionstate_end();/	uint32		generation = zklock_sessionstate_generation();/
	s/^.publish(NULL, terminating);/	wait_for_commits(generation);\
	generation = zklock_sessionstate_end();\
&/
}
