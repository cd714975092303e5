# Seed 4
# The window begins with the request for the node.
s/^.int.*creating;.*counted in.*/&\
	int64		begun_at;/
/^begin_attempt/,/^}/s/^.attempt->serial = .*/&\
	attempt->begun_at = zklock_clock_now();/
/^report(/,/^}/s/&report, zklock_clock_now());/\&report, attempt->begun_at);/
