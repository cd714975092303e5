# Seed 123
# Order contenders by numbers beyond the counter's end.
s/r->outcome.seq < 0 || r->outcome.seq >= INT32_MAX ?/false ?/
