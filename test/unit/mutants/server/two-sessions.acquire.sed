# Scenario lost-together
# Many locks may be of two sessions.
/^is_of_one_session/,/^}/s/return false;/continue;/
