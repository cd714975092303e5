# Seed 27
# A process is the victim if it only waits ahead of another one.
/^reach(/,/^}/ s/graph->positions\[blocker\].of_wait/false/
