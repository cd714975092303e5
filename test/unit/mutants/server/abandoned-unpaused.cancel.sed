# Seed 1197
# The revocation of a lock that was granted, and is given up, is nobody's reason.
/^zklock_cancel_abandon/,/^}/s/if (!watching || /if (true || /
