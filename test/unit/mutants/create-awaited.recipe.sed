# Seed 20371
# After a connection loss, wait for the reply to the former create.
/^recover/,/^}/ s/^\tr->create = 0;$//
