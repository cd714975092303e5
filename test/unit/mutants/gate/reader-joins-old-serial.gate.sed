# A reader that has lost its node, and joins again, gives up the node of others.
/^zklock_gate_join/,/^}/s/if (is_holder(turn))/if (turn->state == ZKLOCK_TURN_HOLDING)/
