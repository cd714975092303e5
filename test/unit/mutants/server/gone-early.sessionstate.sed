# Seed 19
# A session that is relied on is taken for gone before others can have its locks.
/^gone_at/,/^}/s/Min(confirmed + timeout,/Min(confirmed + timeout \/ 2,/
