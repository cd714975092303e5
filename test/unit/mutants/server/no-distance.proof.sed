# Seed 2641
# Two writes prove each other, however close.
/^distance/,/^}/s/return .*/return timeout * 0;/
