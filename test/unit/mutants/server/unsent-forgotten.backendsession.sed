# Seed 1
# An attempt that is given up while it waits for room begins nevertheless.
/^abandon(/,/^}/ s/attempt->unsent = false;/;/
