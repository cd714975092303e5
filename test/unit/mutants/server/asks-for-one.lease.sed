# Seed 1029
# A commit that always asks does so for one of its locks.
/^confirm_granted(/,/^}/s/always ? n : 1/1/
