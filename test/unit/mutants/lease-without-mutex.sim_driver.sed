# Count leases while others do so, too.
/^run(/,/^}/ s/&d->attempts\[0\], ZKLOCK_EXCLUSIVE, SIM_LOCKS/\&d->attempts[1], ZKLOCK_SEMAPHORE, SIM_LEASES/
