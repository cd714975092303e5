# Seed 28
# Hand a lock over as long as there is a waiter.
s/now - gate->granted_at < window)/(now - gate->granted_at < window || window > 0))/
