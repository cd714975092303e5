# The distance counts from the sending of the first write.
/^zklock_proof_answered/,/^}/s/\.answered + distance(timeout) > sent/.sent + distance(timeout) > sent/
