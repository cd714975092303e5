# Seed 1011
# A deadlock with newer records need not be closed by a process behind this one.
/^search_behind(/,/^}/ s/walk->closing->use == ZKLOCK_WALK_HELD_BEHIND/true/
