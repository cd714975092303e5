# Whom work is for is changed without the owners' mutex.
/^zklock_owners_assign/,/^}/{
	/SpinLock/d
}
