# Seed 1
# Somebody has come back into a place before the first, who does not mind.
/^settle(/,/^}/ s/^\tif (second != NULL)$/\tif (second != NULL \&\& false)/
