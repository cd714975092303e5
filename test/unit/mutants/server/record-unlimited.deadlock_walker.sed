# Seed 441
# A record needs no room.
s/strlen(ZKLOCK_PATH_RECORDS "\/") + strlen(name)) != ZKLOCK_ROOM)/strlen(ZKLOCK_PATH_RECORDS "\/") + strlen(name)) > ZKLOCK_ROOM_NONE)/
