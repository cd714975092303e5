# Seed 32
# A commit that always asks takes a proof that the session lives for the answer.
/^confirm_locks(/,/^}/s/answered = !always;/answered = true;/
