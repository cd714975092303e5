# Seed 48
# After a connection loss, rely on watches whose request may have been lost.
/^recover/,/^}/ s/^\tr->[a-z]*\.request = 0;$//
