# To connect proves what was written before.
/^zklock_proof_connected/,/^}/s/^	proof->connection++;/	if (proof->nmarks > 0)\
		proof->confirmed = proof->mark[proof->nmarks - 1].sent;\
&/
