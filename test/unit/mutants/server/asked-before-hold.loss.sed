# Seed 1181
# A revocation between a grant and its hold counts as reported.
/^zklock_loss_granted/,/^}/s/reported_serial = .*;/(void) 0;/
