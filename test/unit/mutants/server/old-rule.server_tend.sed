# Scenario follower-lull
# Each write that is answered confirms the session for a third of its timeout.
/^answered/,/^}/s/return zklock_proof_answered(.*/sent -= tending->timeout \/ 3;\
	if (sent <= tending->proof.confirmed)\
		return false;\
	tending->proof.confirmed = sent;\
	return true;/
