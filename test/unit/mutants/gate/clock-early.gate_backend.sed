# Seed 6
# A backend reads the clock when it begins to release its locks, not at each release.
s/^#define READER SIM_MAX_LOCKS$/&\
\
static int64_t early[GATE_MAX_SERVERS][GATE_MAX_BACKENDS];/
/^give_up(/,/^}/ s/^\tb->pos = 0;$/&\
\tearly[b->server->number][b->number] = sim.now;/
/^release(/,/^}/ {
	s/^\tGateServer \*s = b->server;$/&\
\tint64_t		now = b->state == GATE_DELETING ? early[s->number][b->number] : sim.now;/
	s/gate_is_fresh(s)/now - s->confirmed < s->timeout \/ 3/
	s/fit, sim\.now,/fit, now,/
}
