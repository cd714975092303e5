# Seed 1852
# A list that was not answered leaves its watch when the node is given up.
/^zklock_keeper_ended/,/^}/s/unwatch(keeper);/;/
