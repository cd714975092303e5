# Scenario stop-timer
# A timer that has expired while nothing was held is taken for set.
/^on_signal/,/^}/s/timer_at = 0;/(void) 0;/
