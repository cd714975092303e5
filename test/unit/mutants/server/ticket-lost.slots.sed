# Seed 285
# Who is told of the end of a session leaves before it joins again.
/^zklock_slots_give_up/,/^}/s/!(claim->at_gate &&/!(claim->at_gate \&\& false \&\&/
