# Seed 28
# Pass a lock on as long as somebody waits.
s/now - gate->granted_at < window)/(now - gate->granted_at < window || window > 0))/
