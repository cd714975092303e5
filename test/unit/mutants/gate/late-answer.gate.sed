# Take the grant of any node for that of the wanted one.
s/ZKLOCK_GATE_REQUESTED && serial == gate->wanted;/ZKLOCK_GATE_REQUESTED \&\& serial != 0;/
