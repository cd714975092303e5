# A node that is given up does not count any more.
/^room_for(/,/^}/ s/ZKLOCK_ROOM_LATER : ZKLOCK_ROOM_NONE/ZKLOCK_ROOM : ZKLOCK_ROOM_NONE/
