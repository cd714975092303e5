/*-------------------------------------------------------------------------
 *
 * walk_search.c
 *	  The search for deadlocks across servers, in all queues of three processes.
 *
 * A world has three queues, with six nodes or fewer, in each of which a process has a node
 * of a reader or a writer, or none.  It waits with the one that is behind those of others,
 * or with a node of another process, whose gate it shares.  If it has something else, it
 * has a record, or one of another version, or none, as other clients.  One that does not
 * wait in a queue may wait in PostgreSQL's lock manager for another one, whose record then
 * lists its nodes.  The numbers of the processes are the order of their records.
 *
 * In each world, each process with a record walks.  It has to be the victim if and only if
 * deadlock_walk.h says so.  So it has to when one of the records has come after an earlier
 * walk, and when the names of all records fit all nodes.  A victim also walks while a node
 * or a record disappears, or a newer record comes, before each of its reads, which show
 * that at once or after the sync.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/deadlock_walk.h"

#define N 3						/* processes, and queues */
#define MAX_POSITIONS 6			/* enough for any deadlock of three */
#define MAX_CONTENTS 79
#define MAX_READS 64
#define NEVER INT32_MAX

/* The nodes in a queue, one behind the other */
typedef struct Contents
{
	int			n;
	int			process[N];
	bool		reader[N];
} Contents;

typedef enum Record
{
	NONE,
	OTHER_VERSION,
	KNOWN
} Record;

/* A node that a process has, or that it waits with although `owner` has it */
typedef struct Position
{
	int			process;
	int			owner;
	int			queue;
	int			place;
	bool		reader;
	bool		waits;
} Position;

typedef struct World
{
	Contents	queues[N];
	Record		records[N];
	int			behind[N];		/* the process that it waits for in
								 * PostgreSQL's lock manager, or -1 */
	const Position *wait[N];	/* NULL: it does not wait in a queue */
	int			npositions;
	Position	positions[N * N + N];
} World;

/* What exists at a time */
typedef struct State
{
	bool		record[N];
	bool		node[N][N];		/* of a process, in a queue */
} State;

/* The texts of a world */
static const char *const letters[N] = {"A", "B", "C"};
static const char *const paths[N] = {"/q0", "/q1", "/q2"};
static char node_names[N][N][64];
static char texts[N][ZKLOCK_RECORD_SIZE];
static size_t sizes[N];
static char record_names[N][ZKLOCK_RECORD_NAME_SIZE];
static bool all_fit;			/* each name seems to tell of each node */

/* A walk, and what changes during it */
typedef struct Course
{
	int			self;
	State		before;
	State		after;
	int			changes;		/* before the answer to the read of this
								 * number */
	int			shows;			/* reads show it from that one on */
} Course;

static Contents contents[MAX_CONTENTS];
static int	ncontents;
static World w;
static const Course *course;	/* NULL: there is no walk */
static char memory[64 * 1024];
static long nworlds;
static long nvictims;
static long nwalks;

/*
 * Output
 */

static void
print_world(void)
{
	static const char *const records[] = {"no record", "a record of another version", "a record"};

	for (int q = 0; q < N; q++)
	{
		printf("#   queue %d:", q);
		for (int i = 0; i < w.queues[q].n; i++)
			printf(" %c %s,", 'A' + w.queues[q].process[i],
				   w.queues[q].reader[i] ? "reads" : "writes");
		printf("\n");
	}
	for (int i = 0; i < N; i++)
	{
		printf("#   %c has %s", 'A' + i, records[w.records[i]]);
		if (w.behind[i] >= 0)
			printf(", and waits for %c", 'A' + w.behind[i]);
		if (w.wait[i] != NULL)
			printf(", and waits in queue %d with the node of %c", w.wait[i]->queue,
				   'A' + w.wait[i]->owner);
		printf("\n");
	}
}

static void
print_state(const State *state)
{
	for (int i = 0; i < N; i++)
	{
		printf(" %c%s", 'A' + i, state->record[i] ? " record" : "");
		for (int q = 0; q < N; q++)
			if (state->node[i][q])
				printf(" %d", q);
	}
	printf("\n");
}

static void breach(const char *fmt,...) __attribute__((format(printf, 1, 2), noreturn));

static void
breach(const char *fmt,...)
{
	va_list		args;

	printf("not ok 1 - ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf(", in this world:\n");
	print_world();
	if (course != NULL)
	{
		printf("#   %c walks beside", 'A' + course->self);
		print_state(&course->before);
		printf("#   before read %d, shown from read %d on:", course->changes, course->shows);
		print_state(&course->after);
	}
	exit(1);
}

/* The C library's function for a failed assert() */
void		__assert_fail(const char *condition, const char *file, unsigned line,
						  const char *function);

void
__assert_fail(const char *condition, const char *file, unsigned line, const char *function)
{
	(void) file;
	(void) line;
	breach("assertion failed: %s (%s)", condition, function);
}

/*
 * The rules of deadlock_walk.h
 */

static bool
is_ahead(const Position *a, const Position *b)
{
	return a->queue == b->queue && a->process != b->process && !(a->reader && b->reader) &&
		(a->place < b->place || (a->place == b->place && !a->waits && b->waits));
}

static bool
exists(const State *state, const Position *position)
{
	return state->node[position->owner][position->queue];
}

static bool
is_known(const State *state, int process)
{
	return state->record[process] && w.records[process] == KNOWN;
}

/* Does a process block another one, with its wait, or with something else? */
static bool
blocks(const State *state, int process, int other, bool with_wait)
{
	const Position *wait = w.wait[other];

	if (wait == NULL || !exists(state, wait))
		return false;
	for (int i = 0; i < w.npositions; i++)
	{
		const Position *p = &w.positions[i];

		if (p->process == process && exists(state, p) && is_ahead(p, wait) &&
			(p == w.wait[process]) == with_wait)
			return true;
	}
	return false;
}

/*
 * May a process be the next member of a deadlock behind this one?  If it is not because of
 * its wait, its record is known, and not newer.  Who waits with the node of another one is
 * not known without a record.
 */
static bool
may_follow(const State *state, int process, int other, int newest)
{
	bool		known = is_known(state, process);

	return (blocks(state, process, other, true) &&
			(known || w.wait[process]->owner == process)) ||
		(blocks(state, process, other, false) && known && process <= newest);
}

/* Is there a chain of such members that ends at `last`, which blocks the one before it? */
static bool
reaches(const State *state, int from, int last, bool direct, int newest, bool *seen)
{
	if (direct && blocks(state, last, from, false))
		return true;
	for (int i = 0; i < N; i++)
		if (i != last && !seen[i] && may_follow(state, i, from, newest))
		{
			seen[i] = true;
			if (reaches(state, i, last, true, newest, seen))
				return true;
		}
	return false;
}

/*
 * Is this process the victim: does a deadlock come back to it by more than its wait, in which
 * its record is the newest of those that count, or does one come back to a process behind it?
 */
static bool
is_victim(const State *state, int self)
{
	bool		seen[N] = {false};
	bool		result;

	if (!is_known(state, self))
		return false;
	seen[self] = true;
	result = reaches(state, self, self, true, self, seen);
	for (int i = 0; i < N && !result; i++)
		if (w.behind[i] == self)
		{
			memset(seen, 0, sizeof(seen));
			seen[self] = true;
			result = reaches(state, self, i, false, N, seen);
		}
	return result;
}

/* Is this process in a deadlock all of whose members have records that are known? */
static bool
is_in_deadlock(const State *state, int from, int self, bool *seen)
{
	for (int i = 0; i < N; i++)
	{
		if (!is_known(state, i) || seen[i] ||
			(!blocks(state, i, from, true) && !blocks(state, i, from, false)))
			continue;
		seen[i] = true;
		if (i == self || is_in_deadlock(state, i, self, seen))
			return true;
	}
	return false;
}

/*
 * A walk
 */

typedef struct Result
{
	ZkLockWalkVerdict verdict;
	uint64_t	listed;
	int			nreads;
	int			sync;			/* the last read of a sync */
	State		at_sync;
} Result;

static int
process_of_record(const char *name)
{
	for (int i = 0; i < N; i++)
		if (strcmp(record_names[i], name) == 0)
			return i;
	breach("a record that does not exist is read");
}

static int
queue_of_path(const char *path)
{
	for (int q = 0; q < N; q++)
		if (strcmp(paths[q], path) == 0)
			return q;
	breach("a queue that does not exist is listed");
}

static void
answer_list(ZkLockWalk *walk, const ZkLockWalkRead *read, const State *state)
{
	const char *names[N];
	int			n = 0;

	for (int i = 0; i < N; i++)
		if (read->kind == ZKLOCK_WALK_LIST_RECORDS)
		{
			if (state->record[i])
				names[n++] = record_names[i];
		}
		else if (state->node[i][queue_of_path(read->name)])
			names[n++] = node_names[i][queue_of_path(read->name)];
	zklock_deadlock_walk_listed(walk, read, names, n);
}

static void
answer_record(ZkLockWalk *walk, const ZkLockWalkRead *read, const State *state)
{
	int			i = process_of_record(read->name);

	if (state->record[i])
		zklock_deadlock_walk_record(walk, read, texts[i], sizes[i], i + 1);
	else
		zklock_deadlock_walk_record(walk, read, NULL, 0, 0);
}

/* Only a record with a node in a queue that was listed is worth a read. */
static void
check_read(const ZkLockWalkRead *read, bool *listed)
{
	int			process;

	if (read->kind == ZKLOCK_WALK_LIST_RECORDS)
		memset(listed, 0, sizeof(bool) * N);
	if (read->kind == ZKLOCK_WALK_LIST_NODES)
		listed[queue_of_path(read->name)] = true;
	if (read->kind != ZKLOCK_WALK_READ_RECORD)
		return;
	process = process_of_record(read->name);
	if (process == course->self || all_fit)
		return;
	for (int i = 0; i < w.npositions; i++)
		if (listed[w.positions[i].queue] && (w.positions[i].process == process ||
											 w.behind[w.positions[i].process] == process))
			return;
	breach("the record of %c is read for nothing", 'A' + process);
}

/* Are the members those of a deadlock, as it is in the world? */
static void
check_members(const ZkLockWalk *walk)
{
	for (int i = 0; i < walk->nmembers - 1; i++)
	{
		const ZkLockWalkMember *m = &walk->members[i];
		int			process = (int) m->czxid - 1;
		int			queue = queue_of_path(m->path);
		const Position *wait;

		/* Without a record, it has the node that it waits with. */
		for (int k = 0; k < N && process < 0; k++)
			if (strcmp(node_names[k][queue], m->node) == 0)
				process = k;
		wait = w.wait[process];
		if (wait == NULL || wait->queue != queue ||
			strcmp(node_names[wait->owner][queue], m->node) != 0 ||
			(m->mode == ZKLOCK_SHARED) != wait->reader)
			breach("%c does not wait as member %d says", 'A' + process, i);
		if (strcmp(m->process, m->czxid != 0 ? letters[process] : "") != 0)
			breach("member %d has another process than %c", i, 'A' + process);
	}
}

static Result
walk(uint64_t known)
{
	ZkLockWalk	walk;
	ZkLockWalkRead reads[MAX_READS];
	Result		result = {0};
	int			shows = course->shows;
	bool		listed[N];
	int			n = 0;

	nwalks++;
	zklock_deadlock_walk_begin(&walk, record_names[course->self], memory, sizeof(memory), known);
	for (int i = 0; i < MAX_READS; i++)
	{
		const State *state;

		while (n < MAX_READS && zklock_deadlock_walk_next(&walk, &reads[n]))
			n++;
		result.nreads = i;
		if (i >= n || n == MAX_READS)
			break;
		if (reads[i].kind == ZKLOCK_WALK_SYNC)
		{
			result.sync = i;
			result.at_sync = i < course->changes ? course->before : course->after;
			if (course->changes <= i)
				shows = 0;
		}
		state = i < shows ? &course->before : &course->after;
		check_read(&reads[i], listed);
		switch (reads[i].kind)
		{
			case ZKLOCK_WALK_LIST_RECORDS:
			case ZKLOCK_WALK_LIST_NODES:
				answer_list(&walk, &reads[i], state);
				break;
			case ZKLOCK_WALK_READ_RECORD:
				answer_record(&walk, &reads[i], state);
				break;
			case ZKLOCK_WALK_SYNC:
				zklock_deadlock_walk_synced(&walk);
				break;
		}
	}
	result.verdict = walk.verdict;
	result.listed = walk.listed;
	if (walk.verdict == ZKLOCK_WALK_VICTIM)
		check_members(&walk);
	else if (walk.verdict != ZKLOCK_WALK_NO_DEADLOCK)
		breach("the verdict is %d", walk.verdict);
	return result;
}

static Result
walk_unchanged(int self, const State *state, uint64_t known)
{
	Course		unchanged = {
		.self = self,.before = *state,.after = *state,.changes = NEVER,.shows = NEVER
	};
	Result		result;

	course = &unchanged;
	result = walk(known);
	if ((result.verdict == ZKLOCK_WALK_VICTIM) != is_victim(state, self))
		breach("%c is %s victim", 'A' + self, is_victim(state, self) ? "no" : "a");
	course = NULL;
	return result;
}

/* At each moment of this walk, something changes; its reads show it then, or after the sync. */
static void
walk_changed(int self, const State *before, const State *after, const Result *unchanged)
{
	Course		changed = {.self = self,.before = *before,.after = *after};
	bool		stands = is_victim(before, self) && is_victim(after, self);

	if (memcmp(before, after, sizeof(*before)) == 0)
		return;
	course = &changed;
	for (int n = 0; n < unchanged->nreads + unchanged->sync; n++)
	{
		bool		late = n >= unchanged->nreads;
		Result		result;

		changed.changes = late ? n - unchanged->nreads : n;
		changed.shows = late ? NEVER : n;
		result = walk(0);
		if (result.verdict == ZKLOCK_WALK_VICTIM && !is_victim(&result.at_sync, self))
			breach("%c is a victim, and was in no deadlock", 'A' + self);
		if (result.verdict != ZKLOCK_WALK_VICTIM && stands)
			breach("%c is no victim of a deadlock that stands", 'A' + self);
	}
	course = NULL;
}

/* A newer record comes, or a node is gone, or a record, or with it all that its process has. */
static void
walk_while_changing(int self, const State *state, const Result *unchanged)
{
	for (int i = 0; i < N; i++)
	{
		State		after = *state;

		after.record[i] = false;
		walk_changed(self, state, &after, unchanged);
		memset(after.node[i], 0, sizeof(after.node[i]));
		walk_changed(self, state, &after, unchanged);
		for (int q = 0; q < N; q++)
		{
			after = *state;
			after.node[i][q] = false;
			walk_changed(self, state, &after, unchanged);
		}
	}
	for (int i = self + 1; i < N; i++)
	{
		State		earlier = *state;

		earlier.record[i] = false;
		walk_changed(self, &earlier, state, unchanged);
	}
}

/* A walk that is repeated is short, as long as no record has come. */
static void
walk_again(int self, const State *state)
{
	for (int i = 0; i < N; i++)
	{
		State		earlier = *state;
		Result		result;

		if (i == self || !state->record[i])
			continue;
		earlier.record[i] = false;
		result = walk_unchanged(self, &earlier, 0);
		if (result.verdict != ZKLOCK_WALK_NO_DEADLOCK)
			continue;
		if (walk_unchanged(self, &earlier, result.listed).nreads != 1)
			breach("%c reads more than the records again", 'A' + self);
		(void) walk_unchanged(self, state, result.listed);
	}
}

/*
 * Worlds
 */

static void
write_node(int process, const Position *p, ZkLockWalkUse use)
{
	sizes[process] = zklock_waitrecord_write_node(texts[process], sizes[process],
												  sizeof(texts[process]),
												  p->reader ? ZKLOCK_SHARED : ZKLOCK_WRITE,
												  paths[p->queue],
												  node_names[p->owner][p->queue], use);
}

/*
 * Write a record, and, as a later build might, a line that is not known for each node that
 * it does not have.
 */
static void
write_record(int process)
{
	sizes[process] = zklock_waitrecord_write_head(texts[process], sizeof(texts[process]),
												  "server", letters[process]);
	write_node(process, w.wait[process], ZKLOCK_WALK_WAITS);
	for (int i = 0; i < w.npositions; i++)
		if (w.positions[i].process == process && !w.positions[i].waits)
			write_node(process, &w.positions[i], ZKLOCK_WALK_HOLDS);
		else if (w.behind[w.positions[i].process] == process)
			write_node(process, &w.positions[i], ZKLOCK_WALK_HELD_BEHIND);
	zklock_waitrecord_write_name(record_names[process], texts[process],
								 (uint64_t) process + 1);
	if (all_fit)
		memset(record_names[process], 'f', ZKLOCK_RECORD_NAME_SIZE - 1 - 16);
	for (int i = 0; i < w.npositions; i++)
		if (w.positions[i].owner != process)
		{
			size_t		start = sizes[process];

			write_node(process, &w.positions[i], ZKLOCK_WALK_HOLDS);
			memcpy(texts[process] + start, "other", 5);
		}
	if (w.records[process] == OTHER_VERSION)
		memcpy(texts[process], "zklock-2", 8);
}

/* Is there a queue with one process only? */
static bool
is_any_alone(void)
{
	for (int q = 0; q < N; q++)
	{
		int			n = 0;

		for (int i = 0; i < w.npositions; i++)
			n += w.positions[i].queue == q;
		if (n == 1)
			return true;
	}
	return false;
}

/* Returns whether any of the processes is a victim. */
static bool
walk_all(const State *state)
{
	bool		any = false;

	for (int i = 0; i < N; i++)
	{
		Result		result;

		if (!is_known(state, i))
			continue;
		result = walk_unchanged(i, state, 0);
		if (result.verdict == ZKLOCK_WALK_VICTIM)
		{
			any = true;
			nvictims++;
			if (!all_fit && !is_any_alone())
				walk_while_changing(i, state, &result);
		}
		walk_again(i, state);
	}
	return any;
}

static void
play_world(void)
{
	State		state = {0};
	bool		deadlock = false;
	bool		any = false;

	nworlds++;
	for (int i = 0; i < N; i++)
		state.record[i] = w.records[i] != NONE;
	for (int i = 0; i < w.npositions; i++)
		state.node[w.positions[i].owner][w.positions[i].queue] = true;
	for (int fit = 0; fit <= 1; fit++)
	{
		all_fit = fit;
		for (int i = 0; i < N; i++)
			if (state.record[i])
				write_record(i);
		any = walk_all(&state);
	}
	for (int i = 0; i < N; i++)
	{
		bool		seen[N] = {false};

		deadlock |= is_known(&state, i) && is_in_deadlock(&state, i, i, seen);
	}
	if (deadlock && !any)
		breach("a deadlock has no victim");
}

/*
 * Who has a record waits in a queue, and has something else.  The server itself finds a
 * process that waits for one behind it.
 */
static bool
is_possible(void)
{
	bool		known = false;

	for (int i = 0; i < N; i++)
	{
		int			j = w.behind[i];
		bool		more = false;

		if (j >= 0 && w.records[j] != KNOWN)
			return false;
		for (int k = 0; k < w.npositions; k++)
		{
			const Position *p = &w.positions[k];

			more |= (p->process == i && p != w.wait[i]) || w.behind[p->process] == i;
			if (j >= 0 && p->process == i && is_ahead(p, w.wait[j]))
				return false;
		}
		if (w.records[i] != NONE && !more)
			return false;
		known |= w.records[i] == KNOWN;
	}
	return known && w.npositions <= MAX_POSITIONS;
}

static const Position *
position_of(int process, int queue)
{
	for (int i = 0; i < w.npositions; i++)
		if (w.positions[i].process == process && w.positions[i].queue == queue)
			return &w.positions[i];
	return NULL;
}

/* Choose what this process, and those that follow, are besides their nodes. */
static void
choose(int i)
{
	if (i == N)
	{
		if (is_possible())
			play_world();
		return;
	}
	w.records[i] = NONE;
	choose(i + 1);
	for (w.records[i] = OTHER_VERSION; w.wait[i] != NULL && w.records[i] <= KNOWN; w.records[i]++)
		choose(i + 1);
	w.records[i] = NONE;
	if (w.wait[i] != NULL)
		return;
	for (w.behind[i] = 0; w.behind[i] < N; w.behind[i]++)
		if (w.behind[i] != i)
			choose(i + 1);
	w.behind[i] = -1;
	w.records[i] = KNOWN;
	for (int q = 0; q < N; q++)
		for (int owner = 0; owner < N; owner++)
		{
			const Position *p = position_of(owner, q);

			if (p == NULL || p->reader || p->owner != owner || position_of(i, q) != NULL)
				continue;
			w.positions[w.npositions] = *p;
			w.positions[w.npositions].process = i;
			w.positions[w.npositions].waits = true;
			w.wait[i] = &w.positions[w.npositions++];
			choose(i + 1);
			w.npositions--;
		}
	w.records[i] = NONE;
	w.wait[i] = NULL;
}

/* Place the nodes.  A process that has two of them behind those of others is impossible. */
static void
place(void)
{
	memset(w.wait, 0, sizeof(w.wait));
	memset(w.behind, 0xff, sizeof(w.behind));
	w.npositions = 0;
	for (int q = 0; q < N; q++)
		for (int i = 0; i < w.queues[q].n; i++)
		{
			int			process = w.queues[q].process[i];
			Position   *p = &w.positions[w.npositions++];

			*p = (Position) {
				.process = process,.owner = process,.queue = q,.place = i,
				.reader = w.queues[q].reader[i]
			};
			sprintf(node_names[process][q], "_c_00000000-0000-4000-8000-0000000000%d%d-%s%010d",
					q, process, p->reader ? "__READ__" : "__WRIT__", i);
			for (Position *other = w.positions; other < p; other++)
				p->waits |= is_ahead(other, p);
			if (p->waits && w.wait[process] != NULL)
				return;
			if (p->waits)
				w.wait[process] = p;
		}
	choose(0);
}

static void
add_contents(Contents c)
{
	contents[ncontents++] = c;
	for (int i = 0; i < N; i++)
	{
		Contents	longer = c;
		bool		has = false;

		for (int k = 0; k < c.n; k++)
			has |= c.process[k] == i;
		if (has)
			continue;
		longer.n++;
		longer.process[c.n] = i;
		longer.reader[c.n] = false;
		add_contents(longer);
		longer.reader[c.n] = true;
		add_contents(longer);
	}
}

int
main(void)
{
	add_contents((Contents) {0});
	for (int a = 0; a < ncontents; a++)
		for (int b = a; b < ncontents; b++)
			for (int c = b; c < ncontents; c++)
			{
				w.queues[0] = contents[a];
				w.queues[1] = contents[b];
				w.queues[2] = contents[c];
				place();
			}
	printf("1..1\nok 1 - %ld worlds with %ld victims, %ld walks\n", nworlds, nvictims, nwalks);
	return 0;
}
