# Scenario follower-late
# Marks from before a late answer are proven by what follows it.
/^zklock_proof_answered/,/^}/{
/answered - sent > zklock_proof_answer/,+1d
s/n = proof->nmarks;/n = answered - sent > zklock_proof_answer(timeout) ? 0 : proof->nmarks;/
}
