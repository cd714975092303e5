# Seed 285
# A guard is checked when it is taken, and not at commit.
s/while (zklock_leaderguard_confirm_commit() ||/while (false \&\&/
