# Seed 33
# Who has replayed as much need not have the record.
s/ \&\& is_in_wal(position))/)/
