# Seed 387
# The flag of a commit is taken down when its check has passed.
/^confirm_holds(/,/^}/s/zklock_loss_refuse_disconnected();/zklock_lease_end_commit();\
	&/
