# Seed 352
# Only one of the positions that a process waits with counts.
/^follow(/,/^}/ s/wait = next_wait(.*))$/wait = -1)/
