# Scenario readers-watch
# An event of another attempt's watch counts, before the reply to the request for one's own.
/^	if (watch != NULL && is_fired && !watch->is_set)$/,/^		return;$/d
