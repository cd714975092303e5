# Seed 123
# Order contenders by numbers beyond the counter's end.
s/r->seq < 0 || r->seq >= INT32_MAX ?/false ?/
