# Seed 8
# A claim that finds room later does not get the key of its lock.
s/hold->key.mode, &hold->advisory.key, false,/hold->key.mode, NULL, false,/
