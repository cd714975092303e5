# Seed 2
# Overlook the contender just ahead of us.
s/seq > r->seq)/seq + 1 >= r->seq)/
