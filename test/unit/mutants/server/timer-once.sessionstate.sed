# Scenario stop-timer
# The handler does not set the timer again.
/^watch_worker/,/^}/s/^	zklock_timer_set/	if (!tells)\
		zklock_timer_set/
