# The oldest mark is proven, not the newest one.
/^zklock_proof_answered/,/^}/s/mark\[n - 1\]\.sent/mark[0].sent/
