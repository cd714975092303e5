# Hand a lock over as long as there is a waiter.
s/now - gate->node.granted_at < window)/(now - gate->node.granted_at < window || window > 0))/
