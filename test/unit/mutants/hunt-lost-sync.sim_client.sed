# Seed 29347
# Leave: look for a node of unknown name although the sync was lost.
s/if (op == SIM_SYNC && reply->reply != ZKLOCK_LOST)/if (op == SIM_SYNC)/
