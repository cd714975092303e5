# Seed 21
# A grant is of the session that is there when its backend wakes.
/^take(/,/^}/ s/claim->turn.generation != b->server->generation ||/false ||/
/^take(/,/^}/ s/b->generation = claim->turn.generation;/b->generation = b->server->generation;/
