# Seed 9
# Nobody looks again when there is room.
s/^\t\tstatus.rooms != before.rooms;/\t\tfalse;/
