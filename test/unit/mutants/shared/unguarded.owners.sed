# The owner of a slot is changed without the owners' mutex.
/^zklock_owners_assign/,/^}/{
	/SpinLock/d
}
