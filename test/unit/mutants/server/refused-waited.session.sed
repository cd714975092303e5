# Seed 126
# Who is refused waits for a connection.
/^wait_until_connected/,/^}/s/zklock_errors_session_refused(.*;//
