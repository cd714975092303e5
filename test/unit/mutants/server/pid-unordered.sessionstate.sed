# Seed 95
# The worker can signal a backend whose pid is not known until cancel on loss was off once.
/^use_backend/,/^}/{
	/backend->pid = MyProcPid;/d
}
/^zklock_sessionstate_signal_on_loss/,/^}/s/cancel_statement();/&\
	if (!on \&\& signal == ZKLOCK_SIGNAL_CANCEL)\
		my_backend()->pid = MyProcPid;/
