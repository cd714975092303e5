# Seed 84
# Other waits do not count.
/^follow(/,/^}/ s/i < n; i++/i < n \&\& false; i++/
