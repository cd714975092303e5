# Forget that a downgraded writer's new node appears ahead of us.
s/r->only_shrinks = false;/(void) 0;/
