# Seed 296
# Disconnect on loss is not turned on with a lock.
/^zklock_loss_resume/,/^}/s/zklock_loss_relied_on();//
