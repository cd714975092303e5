# Seed 19
# A downgrade waits with other readers.
/^begin(/,/^}/ s/request->from == NULL \&\&//
