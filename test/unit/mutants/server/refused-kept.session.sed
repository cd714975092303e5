# Seed 126
# A session that was refused is not closed.
/^\tPG_CATCH();/,/PG_RE_THROW/s/zklock_session_close();//
