# Seed 24
# A session that was refused long ago is taken for the next one.
/^zklock_session_connect/,/^}/s/^\t\tzklock_session_close();//
