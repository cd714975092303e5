# Seed 1289
# A backend that waits for a confirmation does not check whether it has come.
/^decide/,/^}/ s/b->latch = true;/b->latch = false;/
