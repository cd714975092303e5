# Seed 27
# A downgrade waits with other readers.
/^begin_attempt(/,/^}/ s/request->from == NULL \&\&//
