# A backend gets the number after that of its own last grant.
/^give(/,/^}/ s/gate->shared ? 0 : gate->node.next_number++;/turn->grant_number + (gate->node.next_number++ > 0);/
