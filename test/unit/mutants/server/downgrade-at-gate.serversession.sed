# Seed 207
# A downgrade waits with other readers.
/^begin(/,/^}/ s/request->from == NULL \&\&//
