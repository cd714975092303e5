# Seed 1
# The worker's session is closed when nobody uses it.
s/SetConfigOption("zklock.idle_session_timeout", "0"/SetConfigOption("zklock.idle_session_timeout", "1000"/
