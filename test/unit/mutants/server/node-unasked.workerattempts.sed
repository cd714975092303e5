# Seed 9
# The worker does not ask whether there is room for a node.
/^find_room(/,/^}/ s/if (room == ZKLOCK_ROOM)/if (true)/
/^find_room(/,/^}/ s/^\t\treturn room;/\t\treturn ZKLOCK_ROOM;/
