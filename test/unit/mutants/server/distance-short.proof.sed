# Seed 20544
# The distance is that of a quarter of a tick.
/^distance/,/^}/s/return .*/return timeout \/ 8;/
