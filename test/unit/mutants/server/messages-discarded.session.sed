# Scenario all-ahead
# Who reads the state of its session discards what an attempt waits for.
s/^\(\tif \)(dlist_is_empty(&receivers))$/\1(true)/
/Assert(client == NULL || dlist_is_empty/d
