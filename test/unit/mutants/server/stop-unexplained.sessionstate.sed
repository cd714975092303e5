# Seed 2455
# When the session is confirmed again, it is forgotten that its loss was signalled.
/^watch_session/,/^}/s/told_gone = true;/told_gone = false;/
