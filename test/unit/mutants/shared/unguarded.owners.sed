# The owner of a place is changed without the owners' mutex.
/^zklock_owners_assign/,/^}/{
	/SpinLock/d
}
