# Seed 556
# Disconnect on loss is not turned on with a lock.
/^zklock_cancel_resume/,/^}/s/zklock_disconnect_resume();//
