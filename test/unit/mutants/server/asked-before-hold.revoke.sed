# Seed 772
# A request that came between a grant and its hold is taken for one that was told.
/^zklock_revoke_granted/,/^}/s/^.all_told = .*;//
