# The pid of a backend is set only when it first turns cancel on loss off.
/^use_backend/,/^}/{
	/backend->pid = MyProcPid;/d
}
/^zklock_sessionstate_cancel_on_loss/,/^}/s/cancel_backends();/&\
	if (!on)\
		backend->pid = MyProcPid;/
