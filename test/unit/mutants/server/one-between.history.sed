# Seed 52
# One node of another client between two of ours does not count.
/^zklock_history_granted/,/^}/s/number == history->number + 1/number <= history->number + 2/
