/*-------------------------------------------------------------------------
 *
 * walquestion_sim.c
 *	  A standby that asks for positions, its primary, and a copy that may be promoted.
 *
 * The WAL of a server is a sequence of commits and of records of its own.  The standby
 * replays the flushed WAL of one server, and changes over to the promoted copy in some
 * schedules.  Its backends wait as catchup.c does.  What ZooKeeper does, and each step
 * of a process, come in any order that a seed chooses.
 *
 * Whoever has waited must have all commits that the standby's source had made before the
 * wait began.
 *
 *-------------------------------------------------------------------------
 */
#include "sim.h"

#include <string.h>

#include "protocol/walquestion.h"

#define MAX_WAL 400
#define N_SERVERS 2
#define N_WAITERS 3
#define STEPS 600
#define REST 3000
#define STEP INT64_C(100000000) /* ns */
#define SHORT_STEP INT64_C(50000)

enum
{
	STALE = 1,
	MISSED,
	REFUSED,
	FLUSHES,
	QUESTIONS,
	RECORDS,
	PROGRESS,
	SOUND,
	N_PROPERTIES
};

static const char *const properties[] = {
	[STALE] = "whoever has waited sees all earlier commits",
	[MISSED] = "whoever has an answer waits for no later one",
	[REFUSED] = "a source that answers is not taken for a copy",
	[FLUSHES] = "one question is under way at a time, for a second",
	[QUESTIONS] = "no question is asked too soon after another one",
	[RECORDS] = "a session writes no record too soon after another one",
	[PROGRESS] = "every wait ends",
	[SOUND] = "no assertion fails"
};

enum
{
	N_NONE,
	N_WAITS,
	N_OLD_ANSWERS,
	N_FOREIGN,
	N_JOINED,
	N_UNFLUSHED,
	N_CHANGES,
	N_SESSIONS,
	N_REMOVED,
	N_COPIES,
	N_COUNTS
};

static const char *const counts[] = {
	[N_NONE] = NULL,
	[N_WAITS] = "waits",
	[N_OLD_ANSWERS] = "answers to older questions that were seen",
	[N_FOREIGN] = "answers of another server than the source",
	[N_JOINED] = "questions for several waits",
	[N_UNFLUSHED] = "commits that were not flushed when a wait began",
	[N_CHANGES] = "changes of the source during a wait",
	[N_SESSIONS] = "sessions that ended during an answer",
	[N_REMOVED] = "waits that began anew, because a record was removed",
	[N_COPIES] = "waits with answers of copies only"
};

typedef struct Record
{
	int64_t		at;				/* when it was written */
	bool		commit;
	unsigned char proof;
} Record;

/* Position n is the end of n records. */
typedef struct Server
{
	Record		wal[MAX_WAL];
	int			n;
	int			flushed;
	bool		writes;			/* it is not in recovery */
	ZkLockAnswerer answerer;
	uint64_t	session;
	int64_t		recorded_at;	/* in this session; 0: nothing */
	bool		reading;		/* the reply is under way, with this number */
	int64_t		reply;
	bool		publishing;
	bool		changed;		/* an event is under way */
	ZkLockWalPosition node;		/* in ZooKeeper; question 0: none */
} Server;

static Server servers[N_SERVERS];	/* the primary, and its copy */

/* The standby */
static Record replayed_wal[MAX_WAL];
static int	replayed;
static int	removed;			/* so many records of the standby's WAL */
static int	source;
static ZkLockAsker asker;
static uint64_t newest;			/* ticket */
static bool asking;				/* the reply is under way */
static uint64_t asking_for;
static int64_t asking_reply;
static int64_t asked_sent;		/* when the last question was asked */
static ZkLockWalAnswer answers[N_SERVERS];

static struct
{
	bool		waits;
	uint64_t	ticket;
	int64_t		begun;
	ZkLockWalWait wait;
	int			reachable;		/* replay that is enough, as far as was seen;
								 * 0: not known */
}			waiters[N_WAITERS];

static int64_t step_time;
static int64_t zxid;
static int64_t asked_zxid;		/* of the node "asked" */
static unsigned char last_proof;

static ZkLockWalRecord
find_record(const ZkLockWalPosition *position)
{
	const Record *record = &replayed_wal[position->start];

	if (position->start < (uint64_t) removed)
		return ZKLOCK_WAL_RECORD_REMOVED;
	return position->end <= (uint64_t) replayed && position->start + 1 == position->end &&
		!record->commit && record->proof == position->proof[0] ?
		ZKLOCK_WAL_RECORD_FOUND : ZKLOCK_WAL_RECORD_OTHER;
}

static void
append(Server *server, bool commit, unsigned char proof)
{
	if (server->n == MAX_WAL)
		sim_overflow("WAL");
	server->wal[server->n++] = (Record) {.at = sim.now,.commit = commit,.proof = proof};
}

static void
end_session(Server *server)
{
	if (server->answerer.step != ZKLOCK_ANSWER_READ)
		sim_count(N_SESSIONS);
	memset(&server->answerer, 0, sizeof(server->answerer));
	memset(&server->node, 0, sizeof(server->node));
	server->reading = server->publishing = server->changed = false;
	server->session++;
	server->recorded_at = 0;
}

/* What is under way arrives. */
static bool
receive(Server *server)
{
	if (server->changed && sim_percent(50))
	{
		server->changed = false;
		zklock_answerer_changed(&server->answerer);
		return true;
	}
	if (server->reading)
	{
		server->reading = false;
		zklock_answerer_read(&server->answerer, server->reply);
		return true;
	}
	if (server->publishing)
	{
		server->publishing = false;
		zklock_answerer_published(&server->answerer);
		return true;
	}
	return false;
}

static void
answer(Server *server)
{
	ZkLockWalPosition *position = &server->answerer.position;

	if (!server->writes || receive(server) || server->reading || server->publishing)
		return;
	switch (zklock_answerer_next(&server->answerer, sim.now))
	{
		case ZKLOCK_ANSWER_READ:
			zklock_answerer_reads(&server->answerer);
			server->reading = true;
			server->reply = asked_zxid;
			break;
		case ZKLOCK_ANSWER_WRITE:
			position->start = (uint64_t) server->n;
			position->proof[0] = ++last_proof;
			append(server, false, last_proof);
			if (server->recorded_at != 0 && sim.now < server->recorded_at + ZKLOCK_ANSWERER_PACE)
				sim_breach(RECORDS, "a record follows another one after %lld ns",
						   (long long) (sim.now - server->recorded_at));
			server->recorded_at = sim.now;
			position->end = (uint64_t) server->n;
			zklock_answerer_written(&server->answerer, sim.now);
			break;
		case ZKLOCK_ANSWER_FLUSH:
			if (server->flushed < (int) position->end)
				server->flushed = (int) position->end;
			zklock_answerer_flushed(&server->answerer);
			break;
		case ZKLOCK_ANSWER_PUBLISH:
			server->node = *position;
			server->publishing = true;
			if ((int) position->end > server->flushed)
				sim_breach(STALE, "a position is published that is not flushed");
			break;
		case ZKLOCK_ANSWER_WAIT:
			break;
	}
}

static void
ask(void)
{
	if (asking)
	{
		asking = false;
		zklock_asker_asked(&asker, asking_for, asking_reply, sim.now);
		return;
	}
	if (sim.now < zklock_asker_due(&asker, newest))
		return;
	if (newest > asker.ticket + 1)
		sim_count(N_JOINED);
	if (asker.question != 0 && asker.answered < asker.question &&
		sim.now < asked_sent + ZKLOCK_ASKER_PATIENCE)
		sim_breach(FLUSHES, "a question is asked while another one is under way");
	if (asker.question != 0 && sim.now < asked_sent + ZKLOCK_ANSWERER_PACE)
		sim_breach(QUESTIONS, "a question follows another one after %lld ns",
				   (long long) (sim.now - asked_sent));
	asking = true;
	asking_for = newest;
	asked_sent = sim.now;
	asking_reply = asked_zxid = ++zxid;
	for (int i = 0; i < N_SERVERS; i++)
		if (servers[i].answerer.watching)
			servers[i].changed = true;
}

static void
read_answers(void)
{
	int			i = (int) sim_random(N_SERVERS);
	ZkLockWalPosition *position = &servers[i].node;

	if (position->question == 0)
		return;
	answers[i] = (ZkLockWalAnswer) {
		.server = (uint64_t) i << 32 | servers[i].session,.position = *position
	};
	zklock_asker_answered(&asker, position->question);
}

static void
begin_wait(int i)
{
	memset(&waiters[i], 0, sizeof(waiters[i]));
	waiters[i].waits = true;
	waiters[i].begun = sim.now;
	waiters[i].ticket = ++newest;
	if (servers[source].flushed < servers[source].n)
		sim_count(N_UNFLUSHED);
}

static void
check_wait(int i)
{
	const Server *server = &servers[source];

	for (int r = replayed; r < server->n; r++)
		if (server->wal[r].commit && server->wal[r].at < waiters[i].begun)
			sim_breach(STALE, "waiter %d does not see the commit at %d, and has replayed %d",
					   i, r, replayed);
}

/* The servers that answer now */
static int
read_answered(ZkLockWalAnswer *answered)
{
	int			n = 0;

	for (int s = 0; s < N_SERVERS; s++)
		if (answers[s].position.question != 0)
			answered[n++] = answers[s];
	return n;
}

static void
check_refusal(int i)
{
	const ZkLockWalWait *wait = &waiters[i].wait;
	ZkLockWalAnswer answered[N_SERVERS];
	int			n = read_answered(answered);

	if (!zklock_walwait_has_no_source(wait, answered, n))
		return;
	sim_count(N_COPIES);
	for (int s = 0; s < n; s++)
		if (answered[s].server >> 32 == (uint64_t) source)
			sim_breach(REFUSED, "waiter %d is told that server %d is a copy", i, source);
}

/* A wait as in catchup.c */
static void
look(int i)
{
	ZkLockWalWait *wait = &waiters[i].wait;

	if (wait->question == 0 && waiters[i].ticket <= asker.ticket)
		wait->question = asker.question;
	for (int s = 0; s < N_SERVERS; s++)
	{
		const ZkLockWalPosition *position = &answers[s].position;

		if (position->question == 0)
			continue;
		if (position->question < wait->question)
			sim_count(N_OLD_ANSWERS);
		zklock_walwait_answered(wait, &answers[s]);
		if (wait->question != 0 && position->question >= wait->question && s == source &&
			waiters[i].reachable == 0)
			waiters[i].reachable = (int) position->end;
		if (s != source)
			sim_count(N_FOREIGN);
	}
	if (zklock_walwait_is_over(wait, (uint64_t) replayed, find_record))
	{
		check_wait(i);
		waiters[i].waits = false;
		sim_count(N_WAITS);
	}
	else if (wait->too_late)
	{
		memset(wait, 0, sizeof(*wait));
		waiters[i].ticket = ++newest;
		waiters[i].reachable = 0;
		sim_count(N_REMOVED);
	}
	else if (waiters[i].reachable != 0 && replayed >= waiters[i].reachable)
		sim_breach(MISSED, "waiter %d has replayed %d, and has an answer at %d", i, replayed,
				   waiters[i].reachable);
	if (waiters[i].waits)
		check_refusal(i);
}

static void
wait_for_answers(void)
{
	int			i = (int) sim_random(N_WAITERS);

	if (waiters[i].waits)
		look(i);
	else if (!sim.quiet && sim_percent(40))
		begin_wait(i);
}

static void
replay(void)
{
	if (replayed < servers[source].flushed)
	{
		replayed_wal[replayed] = servers[source].wal[replayed];
		replayed++;
	}
}

/* The copy gets what the primary has flushed, until it is promoted. */
static void
copy_wal(void)
{
	if (!servers[1].writes && servers[1].n < servers[0].flushed)
	{
		servers[1].wal[servers[1].n] = servers[0].wal[servers[1].n];
		servers[1].flushed = ++servers[1].n;
	}
}

/* The standby may follow the copy only if it has nothing that the copy has not. */
static void
change_source(void)
{
	if (source == 1 || !servers[1].writes || replayed > servers[1].n)
		return;
	for (int r = 0; r < replayed; r++)
		if (replayed_wal[r].proof != servers[1].wal[r].proof ||
			replayed_wal[r].at != servers[1].wal[r].at)
			return;
	source = 1;
	for (int i = 0; i < N_WAITERS; i++)
	{
		waiters[i].reachable = 0;
		if (waiters[i].waits)
			sim_count(N_CHANGES);
	}
}

static void
write_wal(void)
{
	Server	   *server = &servers[sim_random(N_SERVERS)];

	if (sim.quiet || !server->writes || server->n > MAX_WAL - 150)
		return;
	append(server, true, 0);
	if (sim_percent(50))
		server->flushed = server->n;
}

static void
step(void)
{
	sim.now += sim_percent(2) ? ZKLOCK_ASKER_PATIENCE : step_time;
	switch (sim_random(10))
	{
		case 0:
			write_wal();
			break;
		case 1:
		case 2:
			answer(&servers[sim_random(N_SERVERS)]);
			break;
		case 3:
			ask();
			break;
		case 4:
		case 5:
			read_answers();
			break;
		case 6:
			wait_for_answers();
			break;
		case 7:
			replay();
			break;
		case 8:
			copy_wal();
			break;
		default:
			if (sim.quiet)
				break;
			if (sim_percent(2))
				servers[1].writes = true;
			if (sim_percent(5))
				change_source();
			if (sim_percent(5) && replayed > removed)
				removed += 1 + (int) sim_random((uint32_t) (replayed - removed));
			if (sim_percent(3))
				end_session(&servers[sim_random(N_SERVERS)]);
			break;
	}
}

static void
play(uint64_t seed)
{
	sim_seed(seed);
	memset(servers, 0, sizeof(servers));
	memset(waiters, 0, sizeof(waiters));
	memset(answers, 0, sizeof(answers));
	memset(&asker, 0, sizeof(asker));
	sim.now = ZKLOCK_ASKER_PATIENCE;
	step_time = sim_percent(20) ? SHORT_STEP : STEP;
	servers[0].writes = true;
	replayed = removed = source = 0;
	newest = 0;
	zxid = asked_zxid = 1;
	last_proof = 0;
	asking = false;
	for (int i = 0; i < STEPS && sim.broken == SIM_KEPT; i++)
		step();
	sim.quiet = true;
	for (int i = 0; i < REST && sim.broken == SIM_KEPT; i++)
		step();
	for (int i = 0; i < N_WAITERS; i++)
		if (sim.broken == SIM_KEPT && waiters[i].waits)
			sim_breach(PROGRESS, "waiter %d still waits", i);
}

const SimProgram sim_program = {
	.play = play,
	.properties = properties,
	.nproperties = N_PROPERTIES,
	.sound = SOUND,
	.counts = counts,
	.ncounts = N_COUNTS,
	.enough = 1000
};
