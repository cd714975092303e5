# Seed 1
# The worker is not told that a lock was given back.
/^release(/,/^}/ s/^\t\tgate_poke(s);$/\t\t(void) 0;/
