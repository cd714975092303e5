# With each grant, what is known of other clients is forgotten.
/^give(/,/^}/s/gate->holder = turn;/gate->holder = turn; gate->node.rival = false;/
