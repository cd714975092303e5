# Scenario stop-timer
# A timer that has expired while nothing was held is taken for set.
/^on_signal/,/^}/s/timer_timeout = 0;/(void) 0;/
