# Seed 61445
# A backend is refused that has come first at its gate since there was no room.
/^zklock_slots_refuse(/,/^}/ s/role_of(slot) != role/false/
