# A walk that is repeated finds nothing.
/^go_on(/,/^}/ s/walk->listed == walk->known/walk->known != 0/
