# A write on a later connection needs a distance, too.
/^zklock_proof_answered/,/^}/s/proof->mark\[n - 1\]\.connection == proof->connection \&\&/true \&\&/
