# Seed 2
# A statement begins although a lock is lost.
/^zklock_cancel_refuse/,/^}/s/zklock_lease_explain();//
