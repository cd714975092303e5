# What is proven later counts, also if it was sent earlier.
/^zklock_proof_answered/,/^}/s/changed = proof->mark\[n - 1\]\.sent > proof->confirmed/changed = true/
