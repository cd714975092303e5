# Seed 2
# Overlook the contender just ahead of us.
s/seq > r->outcome.seq)/seq + 1 >= r->outcome.seq)/
