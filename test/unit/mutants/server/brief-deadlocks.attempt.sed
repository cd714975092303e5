# Scenario all-try-own
# A try of many that waits for a moment may be a member of a deadlock.
/^may_deadlock/,/^}/s/ && !attempt->brief &&/ \&\&/
