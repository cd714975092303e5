# Seed 347
# A process is the victim if it blocks another one with its wait only.
/^reach(/,/^}/ s/graph->positions\[blocker\].of_wait/false/
