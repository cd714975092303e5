# Scenario all-ahead
# Who reads the state of its session discards what an attempt waits for.
s/^\(\tif \)(nreceivers == 0)$/\1(true)/
/Assert(client == NULL || nreceivers == 0/d
