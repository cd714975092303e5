# Seed 89891
# Of several locks, check the session of the last one only.
/^take(/,/^}/ s/(b->generation != 0 && claim->turn.generation != b->generation)/false/
