# Seed 162
# An attempt begins again though another lock is lost.
/^zklock_await_start_over/,/^}/s/zklock_lease_check();/;/
