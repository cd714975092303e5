# Who does not have the lock gives up the node that is kept.
/^settle(/,/^}/s/if (gate->state == ZKLOCK_GATE_REQUESTED \&\& /if (gate->holder == NULL \&\& /
