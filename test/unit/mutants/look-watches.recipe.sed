# Seed 2
# A look leaves watches.
s/r->params.only_looks ? ZKLOCK_WATCH_NONE :/r->params.only_looks ? ZKLOCK_WATCH_NEWCOMER :/
