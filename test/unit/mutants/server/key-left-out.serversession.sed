# Seed 8
# A claim that finds room later does not get the key of its lock.
s/hold->key.mode, &hold->advisory, false,/hold->key.mode, NULL, false,/
