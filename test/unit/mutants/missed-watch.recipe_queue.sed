# Seed 7
# Do not notice that a node had gone before it could be watched.
/case ZKLOCK_EV_WATCHED:/,/break;/ s/if (ev->reply == ZKLOCK_NO_NODE)/if (false)/
