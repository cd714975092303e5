# Seed 35
# After a connection loss, trust watches whose request may have been lost.
/^recover/,/^}/ s/^\tr->[a-z]*\.request = 0;$//
