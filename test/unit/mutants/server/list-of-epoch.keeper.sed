# Seed 3865
# A list counts in the epoch in which it is read.
/^finish_look/,/^}/s/keeper->look_epoch,/zklock_sessionstate_epoch(),/
