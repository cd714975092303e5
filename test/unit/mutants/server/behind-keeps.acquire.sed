# Seed 315
# A lock of session scope stays although the server has not caught up.
/^acquire(/,/^}/s/a->scope = ZKLOCK_TRANSACTION;/;/
