# Seed 3
# A backend gets the number after that of its own last grant.
/^give(/,/^}/ s/turn->grant_number = gate->node.next_number++;/turn->grant_number = turn->grant_number + (gate->node.next_number++ > 0);/
