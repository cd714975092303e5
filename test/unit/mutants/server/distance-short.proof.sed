# Scenario follower-close
# The distance is that of a quarter of a tick.
/^distance/,/^}/s/return .*/return timeout \/ 8;/
