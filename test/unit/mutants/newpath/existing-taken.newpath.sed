# What existed counts, too.
s/-= n \* INTERVAL;/-= 0 * n;/
