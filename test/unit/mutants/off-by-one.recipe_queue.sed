# Seed 2
# Overlook the contender directly before us.
s/seq > r->seq)/seq + 1 >= r->seq)/
