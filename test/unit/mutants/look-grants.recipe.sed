# Seed 10
# A look that finds nobody ahead grants the lock.
/^process_look(/,/^}/ s/finish(r, ZKLOCK_FREE, out);/finish(r, ahead.n == 0 ? ZKLOCK_GRANTED : ZKLOCK_FREE, out);/
