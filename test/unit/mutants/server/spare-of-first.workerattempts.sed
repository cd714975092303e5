# Seed 60267701
# Only the request that is the first after a look can have room by a node that is kept.
/^find_room(/,/^}/s/if (room == ZKLOCK_ROOM_NONE \&\& any \&\& !spare)/if (room == ZKLOCK_ROOM_NONE \&\& any \&\& !spare \&\& now == updated_at)/
