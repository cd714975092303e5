# An alarm can be rung before it is known whose it is: until it was off once.
/^use_backend/,/^}/{
	/backend->pid = MyProcPid;/d
}
/^zklock_sessionstate_cancel_on_loss/,/^}/s/cancel();/&\
	if (!on)\
		backend->pid = MyProcPid;/
