# Seed 21
# Assign a grant to the session that exists when its backend wakes.
/^take(/,/^}/ s/claim->turn.generation != b->server->generation ||/false ||/
/^take(/,/^}/ s/b->generation = claim->turn.generation;/b->generation = b->server->generation;/
