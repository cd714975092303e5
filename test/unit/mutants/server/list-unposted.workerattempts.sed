# Seed 10
# A request whose list must wait is left.
/case ZKLOCK_ROOM:/,/case ZKLOCK_ROOM_LATER:/s/pace(slot);/;/
