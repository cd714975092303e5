# Seed 686
# A commit that always asks does so for one of its locks.
/^confirm_granted/,/^}/s/holds = find_granted(test, arg, &n);/{ holds = find_granted(test, arg, \&n); n = 1; }/
