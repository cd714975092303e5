# Scenario stop-timer
# The handler does not set the timer again.
/^watch_session/,/^}/s/^	zklock_timer_set/	if (!tells)\
		zklock_timer_set/
