# Seed 423
# Only one of the readers of a node is woken by an answer.
/^zklock_slots_answer(/,/^}/ s/turn = turn->next/turn = NULL/
