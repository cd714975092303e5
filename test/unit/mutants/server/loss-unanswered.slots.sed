# Seed 7355
# A backend that asks for a node that is lost meanwhile waits for the answer about the next one.
/^zklock_slots_is_answered/,/^}/s/claim->at_gate && claim->turn.lost/false/
