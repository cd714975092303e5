# Scenario follower-lull
# Two writes prove each other, however close.
/^distance/,/^}/s/return .*/return timeout * 0;/
