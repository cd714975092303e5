# Seed 1
# All grants of a node have the same number.
s/turn->token, turn->grant_number + 1)/turn->token, turn->grant_number)/
