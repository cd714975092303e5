# Seed 1113
# Take the grant of any node for that of the wanted one.
s/return serial != 0 && serial == gate->wanted && gate->holder == NULL;/return serial != 0 \&\& gate->wanted != 0 \&\& gate->holder == NULL;/
