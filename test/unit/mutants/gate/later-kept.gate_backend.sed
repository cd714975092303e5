# Seed 14
# Of several locks, keep or queue for later ones while waiting for one.
s/^\t\tb->state = GATE_SETTLING;$/\t\tb->state = GATE_AWAKE;/
s/^\t\t\tjoin(b, &b->claims\[b->pos\]);$/\t\t\tif (b->claims[b->pos].turn.state == ZKLOCK_TURN_OUT)\n\t&/
