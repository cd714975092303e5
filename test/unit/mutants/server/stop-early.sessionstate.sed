# Scenario stop-short
# A session whose worker is stopped is taken for gone before it can have expired.
/^gone_at/,/^}/s/= turned + timeout + /= turned + timeout \/ 2 + /
