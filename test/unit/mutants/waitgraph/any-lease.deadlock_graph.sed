# Seed 71
# A waiter for a lease waits for all leases.
s/graph->closed && graph->any_lease/false \&\& graph->any_lease/
