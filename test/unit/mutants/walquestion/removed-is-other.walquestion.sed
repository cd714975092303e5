# Seed 4
# A record that has been removed counts as that of another server.
s/is_foreign = record == ZKLOCK_WAL_RECORD_OTHER;/is_foreign = record != ZKLOCK_WAL_RECORD_FOUND;/
/too_late |=/d
