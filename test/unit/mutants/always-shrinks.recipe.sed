# Seed 46
# Forget that a downgraded writer's new node appears ahead of us.
s/ahead->only_shrinks = false;/(void) 0;/
