# Seed 2
# A claim that has ended says that its backend waits.
/^give_up(/,/^}/s/^\tclaim->waits = false;//
