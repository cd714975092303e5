# Seed 1
# Do not wake the worker after a release.
/^release(/,/^}/ s/^\t\tgate_poke(s);$/\t\t(void) 0;/
