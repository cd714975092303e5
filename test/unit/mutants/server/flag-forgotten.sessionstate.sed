# Seed 333
# A commit raises no flag.
/^zklock_sessionstate_commit/,/^}/s/begins ? zklock_sessionstate_generation() : 0/begins \&\& false/
