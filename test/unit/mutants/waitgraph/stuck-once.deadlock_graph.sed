# Seed 71
# Those that wait for one that is not stuck stay stuck.
/^find_stuck(/,/^}/ s/while (changed)/while (false \&\& changed)/
