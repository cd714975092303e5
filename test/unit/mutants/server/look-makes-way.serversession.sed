# Seed 4
# Who only looks has the other gates of its path give up the nodes that they keep.
s/request->from == NULL && !request->params.only_looks/request->from == NULL/
