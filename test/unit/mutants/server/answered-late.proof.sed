# Seed 1
# A write proves something however late it is answered.
/^zklock_proof_answered/,/^}/s/= answered - sent > .* : proof->nmarks/= proof->nmarks/
