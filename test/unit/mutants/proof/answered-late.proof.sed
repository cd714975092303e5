# A write proves something however late it is answered.
/answered - sent > zklock_proof_answer/,+1d
