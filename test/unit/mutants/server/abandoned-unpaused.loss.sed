# Seed 308
# The revocation of a lock that was granted, and is given up, is nobody's reason.
/^zklock_loss_abandon/,/^}/s/if (!is_cancel_on() || /if (true || /
