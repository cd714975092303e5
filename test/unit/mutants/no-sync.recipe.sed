# Seed 483
# After a connection loss, list without a sync.
/^recover/,/^}/ s/^\tr->sync = request(.*$//
