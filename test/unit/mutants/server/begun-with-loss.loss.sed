# Seed 108
# A statement begins although a lock is lost.
/^zklock_loss_refuse(/,/^}/s/zklock_lease_explain();//
