# Seed 1875
# The worker waits for commits before the generation is over, not after.
/^end_session/,/^}/{
	/^.wait_for_commits(generation);/d
	s/^.ZkLockGeneration generation = zklock_sessionstate_end();/	ZkLockGeneration generation = zklock_sessionstate_generation();/
	s/^.publish_session(NULL, terminating);/	wait_for_commits(generation);\
	generation = zklock_sessionstate_end();\
&/
}
