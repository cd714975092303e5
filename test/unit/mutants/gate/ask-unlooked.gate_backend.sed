# Seed 1289
# Who asks for the lease to be confirmed does not look whether it has been.
/^decide/,/^}/ s/b->latch = true;/b->latch = false;/
