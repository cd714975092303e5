/*-------------------------------------------------------------------------
 *
 * server_ensemble.c
 *	  ZooKeeper's servers, and when they end a session.  See server_ensemble.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_ensemble.h"

#include <string.h>

#include "protocol/proof.h"
#include "server_sim.h"
#include "shim/scheduler.h"

/* What a leader that goes on does in any order takes this time at most. */
#define RACE (10 * SERVER_MS)

/* For so long a server that has lost its leader serves nobody, at least. */
#define REJOIN (50 * SERVER_MS)

typedef struct Member
{
	int64_t		stopped_from;
	int64_t		stopped_until;
	int64_t		cut_off_until;
	bool		deposed;		/* it is cut off as the others have elected */
	int64_t		known;			/* the last change before it was cut off */
	int64_t		out_from;
	int64_t		out_until;
	int64_t		forgets_until;	/* what it has heard before then it does not
								 * tell */
	int64_t		ping_at;		/* when it is pinged next, and answers */
	int64_t		answer_at;
} Member;

static Member members[SERVER_N_MEMBERS];
static int	leader;
static int64_t begins_at;		/* the leader */
static int64_t timeout;
static int64_t tick;
static int64_t sync_limit;
static int64_t phase;			/* of the leader's ticks */
static uint64_t state;			/* of the random numbers */

static int64_t
draw(int64_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (int64_t) (state >> 1) % n;
}

static int64_t
later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The way from a ping to its answer: proof.h leaves this time for it. */
static int64_t
draw_way(void)
{
	return draw(timeout / 24);
}

/* The leader's clock has a tick then, and pings each follower. */
static void
begin_ticks(int64_t at)
{
	phase = draw(tick);
	for (int i = 0; i < SERVER_N_MEMBERS; i++)
	{
		members[i].ping_at = at + draw(tick / 2);
		members[i].answer_at = members[i].ping_at + draw_way();
	}
}

void
server_ensemble_reset(uint64_t seed, int64_t new_timeout, int64_t new_tick,
					  int64_t new_sync_limit)
{
	memset(members, 0, sizeof(members));
	state = seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
	timeout = new_timeout;
	tick = new_tick;
	sync_limit = new_sync_limit;
	leader = (int) draw(SERVER_N_MEMBERS);
	begins_at = sim.now;
	begin_ticks(sim.now);
}

int
server_ensemble_leader(void)
{
	return leader;
}

static bool
is_stopped(const Member *m)
{
	return m->stopped_until > sim.now;
}

/* When the leader has gone on last, or will */
static int64_t
works_from(void)
{
	return later(begins_at, members[leader].stopped_until);
}

bool
server_ensemble_is_working(void)
{
	return works_from() <= sim.now;
}

bool
server_ensemble_is_out(int member)
{
	const Member *m = &members[member];

	return m->out_from <= sim.now && m->out_until > sim.now;
}

bool
server_ensemble_is_heard(int member)
{
	return !is_stopped(&members[member]) && !server_ensemble_is_out(member);
}

bool
server_ensemble_is_cut_off(int member)
{
	return members[member].cut_off_until > sim.now;
}

int64_t
server_ensemble_known(int member)
{
	return members[member].known;
}

bool
server_ensemble_writes(int member)
{
	return server_ensemble_is_heard(member) && !server_ensemble_is_cut_off(member) &&
		server_ensemble_is_working();
}

bool
server_ensemble_reads(int member, int64_t zxid)
{
	return server_ensemble_is_heard(member) &&
		(!server_ensemble_is_cut_off(member) || members[member].known == zxid);
}

bool
server_ensemble_accepts(int member, bool is_new)
{
	return server_ensemble_writes(member) ||
		(server_ensemble_is_heard(member) && server_ensemble_is_cut_off(member) &&
		 members[member].deposed && !is_new);
}

/*
 * The bounds of what is excluded.  A session in use is written to each T/6, and an answer that
 * proves something takes at most T/6.  So a leader that stands still for longer than T/3 is
 * shown by an answer that is late.  If it did not stand still, it would be told at most
 * T/4 + T/24 after the silence.  So a session that was silent for less than the rest of T
 * has not ended when the leader goes on.
 */
static int64_t
long_silence(void)
{
	return timeout * 3 / 8;
}

static int64_t
short_pause(void)
{
	return zklock_proof_beat(timeout) + zklock_proof_answer(timeout);
}

static void
tell(ServerTracker *tracker, int64_t at)
{
	tracker->told_at = later(tracker->told_at, at);
	tracker->was_silent = false;
}

void
server_ensemble_connected(int member, ServerTracker *tracker)
{
	tracker->heard_at = sim.now;
	if (!server_ensemble_is_cut_off(member))
		tell(tracker, sim.now);
}

void
server_ensemble_hears(int member, ServerTracker *tracker, int64_t at)
{
	tracker->was_silent |= at - tracker->heard_at >= long_silence();
	tracker->heard_at = later(tracker->heard_at, at);
	if (member == leader)
		tell(tracker, at);
	else
		tracker->unsaid[member] = true;
}

/* The ping waits for whatever is in its way, and so does its answer. */
static int64_t
answers_at(const Member *m)
{
	int64_t		at = later(m->answer_at, works_from());

	at = later(later(at, m->stopped_until), m->cut_off_until);
	return m->out_from <= at ? later(at, m->out_until) : at;
}

int
server_ensemble_answer(int64_t until, int64_t *at)
{
	int			first = -1;
	Member	   *m;

	for (int i = 0; i < SERVER_N_MEMBERS; i++)
		if (i != leader && answers_at(&members[i]) <= until &&
			(first < 0 || answers_at(&members[i]) < answers_at(&members[first])))
			first = i;
	if (first < 0)
		return -1;
	m = &members[first];
	*at = answers_at(m);
	while (m->ping_at + tick / 2 <= *at)
		m->ping_at += tick / 2;
	m->ping_at += tick / 2;
	m->answer_at = m->ping_at + draw_way();
	return first;
}

void
server_ensemble_tell(int member, ServerTracker *tracker, int64_t at)
{
	if (tracker->unsaid[member] && at > members[member].forgets_until)
		tell(tracker, at);
	tracker->unsaid[member] = false;
}

/* The first tick after the timeout */
static int64_t
end_of(int64_t told_at)
{
	return ((told_at + timeout - phase) / tick + 1) * tick + phase;
}

int64_t
server_ensemble_ends_at(const ServerTracker *tracker)
{
	int64_t		end = end_of(tracker->told_at);
	const Member *m = &members[leader];

	return end > m->stopped_from && end <= m->stopped_until ?
		m->stopped_until + tracker->race : end;
}

int64_t
server_ensemble_foresees(const ServerTracker *tracker)
{
	int64_t		told_at = tracker->told_at;

	for (int i = 0; i < SERVER_N_MEMBERS; i++)
		if (tracker->unsaid[i] && answers_at(&members[i]) < server_ensemble_ends_at(tracker))
			told_at = later(told_at, answers_at(&members[i]));
	return end_of(told_at);
}

bool
server_ensemble_is_refused(const ServerTracker *tracker, int64_t sent)
{
	return tracker->is_excluded && tracker->told_at < works_from() &&
		sent > works_from() - timeout / 6;
}

static void
add_moment(int64_t *next, int64_t at)
{
	if (at > sim.now && at < *next)
		*next = at;
}

int64_t
server_ensemble_next(void)
{
	int64_t		next = SHIM_NEVER;

	add_moment(&next, begins_at);
	add_moment(&next, members[leader].stopped_until + RACE);
	for (int i = 0; i < SERVER_N_MEMBERS; i++)
	{
		add_moment(&next, members[i].stopped_until);
		add_moment(&next, members[i].cut_off_until);
		add_moment(&next, members[i].out_from);
		add_moment(&next, members[i].out_until);
	}
	return next;
}

/* One thing at a time */
static bool
is_any_disturbed(void)
{
	for (int i = 0; i < SERVER_N_MEMBERS; i++)
		if (is_stopped(&members[i]) || server_ensemble_is_cut_off(i) ||
			members[i].out_until > sim.now)
			return true;
	return !server_ensemble_is_working();
}

/* It has no leader from then on, and begins anew. */
static void
lose_leader(Member *m, int64_t from, int64_t until)
{
	m->out_from = from;
	m->out_until = m->forgets_until = later(until, from + REJOIN);
}

bool
server_ensemble_stop(int member, int64_t until)
{
	Member	   *m = &members[member];

	if (is_any_disturbed() || (member == leader && sim.now < m->stopped_until + 2 * RACE))
		return false;

	/* Followers whose leader stands still for longer elect another one. */
	if (member == leader && until > sim.now + sync_limit)
		until = sim.now + sync_limit;
	m->stopped_from = sim.now;
	m->stopped_until = until;
	if (member != leader && until > sim.now + sync_limit)
		lose_leader(m, until, until);
	for (int i = 0; member == leader && i < SERVER_N_MEMBERS; i++)
	{
		members[i].ping_at = later(members[i].ping_at, until);
		members[i].answer_at = later(members[i].answer_at, until + draw(RACE));
	}
	return true;
}

void
server_ensemble_note_stop(ServerTracker *tracker)
{
	bool		is_unsaid = false;

	for (int i = 0; i < SERVER_N_MEMBERS; i++)
		is_unsaid |= tracker->unsaid[i];
	tracker->race = draw(RACE);
	tracker->is_excluded = is_unsaid && tracker->was_silent &&
		members[leader].stopped_until - sim.now <= short_pause();
}

bool
server_ensemble_cut_off(int member, int64_t until, int64_t zxid)
{
	Member	   *m = &members[member];

	if (member == leader || is_any_disturbed())
		return false;
	m->cut_off_until = until;
	m->deposed = false;
	m->known = zxid;
	if (until > sim.now + sync_limit)
		lose_leader(m, sim.now + sync_limit, until);
	return true;
}

bool
server_ensemble_elect(int64_t begins, int64_t noticed, int64_t zxid)
{
	int			former = leader;

	if (is_any_disturbed())
		return false;
	leader = (leader + 1 + (int) draw(SERVER_N_MEMBERS - 1)) % SERVER_N_MEMBERS;
	begins_at = begins;
	for (int i = 0; i < SERVER_N_MEMBERS; i++)
		lose_leader(&members[i], sim.now, begins);
	if (noticed > sim.now)
	{
		Member	   *m = &members[former];

		if (noticed > sim.now + sync_limit)
			noticed = sim.now + sync_limit;
		m->cut_off_until = noticed;
		m->deposed = true;
		m->known = zxid;
		lose_leader(m, noticed, noticed);
	}
	begin_ticks(begins);
	return true;
}

void
server_ensemble_note_leader(ServerTracker *tracker)
{
	tell(tracker, begins_at);
	tracker->is_excluded = false;
}
