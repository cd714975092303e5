# Seed 2102
# A reader marks positions for writers, too.
/^pass_queue(/,/^}/ s/^\(\t\t\)if (reader)/\1if (false)/
