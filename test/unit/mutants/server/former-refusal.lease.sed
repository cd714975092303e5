# Seed 225
# A session that was refused long ago is taken for the next one.
/^is_unusable/,/^}/s/zklock_zkclient_is_final(status->state)/false/
