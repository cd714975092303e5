# Seed 31
# Who has replayed as much need not have the record.
s/if (record == ZKLOCK_WAL_RECORD_FOUND)/if (true)/
