# Seed 123
# Take numbers from beyond the counter's end for an order.
s/r->seq < 0 || r->seq >= INT32_MAX ?/false ?/
