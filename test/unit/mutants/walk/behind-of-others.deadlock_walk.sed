# A walk counts the locks behind other processes.
/^keep_node(/,/^}/ s/use == ZKLOCK_WALK_HELD_BEHIND || (use == ZKLOCK_WALK_HOLDS && !listed)/use != ZKLOCK_WALK_WAITS \&\& !listed/
