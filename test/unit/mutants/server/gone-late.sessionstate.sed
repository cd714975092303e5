# Seed 689
# A session that is not confirmed is not gone for those who rely on it, either.
/^gone_at/,/^}/s/confirmed == 0 ||/true ||/
