# Seed 60
# Who waits for one of many locks keeps those behind it, and its places there.
/^wait_for_all/,/^}/{
	s/zklock_attempt_abandon(&attempts\[i\]);/(void) 0;/
	s/zklock_attempt_begin(&attempts/if (!attempts[i].begun || attempts[i].outcome.verdict == ZKLOCK_EXPIRED)\
				&/
}
