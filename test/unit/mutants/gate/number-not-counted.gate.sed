# All grants of a node have the same number.
s/turn->token, turn->number + 1)/turn->token, turn->number)/
