# Seed 44
# When an earlier waiter takes its place again, ignore an attempt without a wait ahead.
/^settle(/,/^}/ s/^\tif (second != NULL)$/\tif (second != NULL \&\& false)/
