# Seed 171
# What is given up in the server's session is still shown.
/^give_up(/,/^}/s/^\tclaim->slot.outcome = .*//
