# Seed 3046
# A record whose nodes have changed is not published again.
s/strcmp(record.text, published) != 0/published[0] == '\\0'/
