# Seed 1856
# An attempt begins again though another lock is lost.
/^zklock_attempt_start_over/,/^}/s/zklock_lease_check();/;/
