# Seed 1
# Many locks may be of two sessions.
/^is_of_one_session/,/^}/s/attempts\[i\].session_serial != attempts\[0\].session_serial/false/
