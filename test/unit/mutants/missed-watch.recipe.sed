# Seed 3
# Do not notice that a node was gone before its watch.
/case ZKLOCK_EV_WATCHED:/,/break;/ s/if (ev->reply == ZKLOCK_NO_NODE)/if (false)/
