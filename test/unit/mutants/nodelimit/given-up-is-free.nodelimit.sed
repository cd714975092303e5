# A node that is given up does not count any more.
/^zklock_nodelimit_room(/,/^}/ s/ZKLOCK_ROOM_LATER : ZKLOCK_ROOM_NONE/ZKLOCK_ROOM : ZKLOCK_ROOM_NONE/
