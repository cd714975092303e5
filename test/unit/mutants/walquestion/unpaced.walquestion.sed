# Seed 7
# A record is written for each question at once.
s/answerer->written_at + ZKLOCK_ANSWERER_PACE/answerer->written_at/
