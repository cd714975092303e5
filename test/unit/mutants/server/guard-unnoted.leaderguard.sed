# Scenario guard-resign
# The worker does not see that a transaction relies on a term.
/^add(/,/^}/s/zklock_leaders_rely(leader);/;/
