# All grants of a node have the same number.
s/gate->node.next_number++;/gate->node.next_number;/
