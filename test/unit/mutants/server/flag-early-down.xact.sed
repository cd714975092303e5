# Seed 387
# The flag of a commit is taken down when its check has passed.
/^confirm_holds(/,/^}/s/zklock_lease_confirm_commit();/&\
	zklock_lease_end_commit();/
