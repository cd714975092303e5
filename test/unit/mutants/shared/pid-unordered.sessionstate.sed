# The pid of a backend is set only when it first turns cancel on loss off.
/^use_backend/,/^}/{
	/backend->pid = MyProcPid;/d
}
/^zklock_sessionstate_signal_on_loss/,/^}/s/cancel_statement();/&\
	if (!on \&\& signal == ZKLOCK_SIGNAL_CANCEL)\
		my_backend()->pid = MyProcPid;/
