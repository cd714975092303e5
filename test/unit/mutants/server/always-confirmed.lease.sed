# Seed 110
# A commit relies on any confirmation of its session, however old.
/^is_confirmed/,/^}/s/return confirmed >= .*/return confirmed > 0 \&\&/
