# Take numbers from beyond the counter's end for an order.
s/if (r->seq < 0 || r->seq >= INT32_MAX)/if (false)/
