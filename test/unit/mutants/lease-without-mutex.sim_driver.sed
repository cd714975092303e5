# Seed 2
# Count leases without the mutex.
/^begin_task(/,/^}/ s/&d->runner.attempts\[0\], ZKLOCK_EXCLUSIVE, SIM_LOCKS/\&d->runner.attempts[1], ZKLOCK_SEMAPHORE, SIM_LEASES/
