# Scenario gate-second
# Only the data of the nearest node is kept, and not that of the second.
/^zklock_driver_process_reply/,/^}/s/is_of_watch(driver, event.request))/event.request == driver->recipe.nearest.request)/
