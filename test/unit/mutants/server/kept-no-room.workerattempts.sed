# Scenario room-kept
# A node that nobody uses makes no room for another role.
/^find_room(/,/^}/s/room == ZKLOCK_ROOM_NONE \&\& any/false/
