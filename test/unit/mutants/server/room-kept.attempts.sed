# Seed 1
# Nodes that are kept do not make room.
/^find_room(/,/^}/ s/update_owners(true);/;/
