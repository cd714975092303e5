/*-------------------------------------------------------------------------
 *
 * waitgraph_test.c
 *	  The wait-for graph: a table of its rules.
 *
 * The simulation (waitgraph_sim.c) compares it with another definition of a deadlock.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>

#include "protocol/deadlock_graph.h"

#define MAX 16

/* Processes are letters, locks are digits. */
static ZkLockPosition positions[MAX];
static ZkLockWaitVertex vertices[MAX];
static ZkLockWaitStep cycle[MAX];
static ZkLockDeadlockGraph graph;

/* Who is blocked by whom outside of the queues: "AB" if B blocks A. */
static const char *links;

static int
ask(uint32_t process, const uint32_t **blockers, void *arg)
{
	static uint32_t found[MAX];
	int			n = 0;

	assert_ptr_equal(arg, &graph);
	for (const char *link = links; *link != '\0'; link += 2)
		if ((uint32_t) (link[0] - 'A') == process)
			found[n++] = (uint32_t) (link[1] - 'A');
	*blockers = found;
	return n;
}

/*
 * The queues are words of a lock and its positions, the head first.  A process in upper
 * case has its position, and one in lower case waits.  In front of it, "r" means a
 * reader, and "s" a lease; "=" behind it, that the next one has the same number.  The
 * number of leases that others have follows a lease that waits for one.
 *
 * Returns the processes of the cycle, or "".
 */
static const char *
search(char self, const char *queues, const char *other_links)
{
	static char text[MAX + 1];
	uint64_t	queue = 0;
	int64_t		number = 0;
	bool		found;
	ZkLockPositionKind kind = ZKLOCK_POSITION_WRITER;

	memset(positions, 0, sizeof(positions));
	memset(vertices, 0, sizeof(vertices));
	links = other_links;
	graph = (ZkLockDeadlockGraph) {
		.positions = positions, .vertices = vertices, .nvertices = 8,
		.ask = ask, .arg = &graph, .cycle = cycle
	};
	for (const char *c = queues; *c != '\0'; c++)
	{
		ZkLockPosition *p = &positions[graph.npositions];

		if (*c == ' ')
			queue++;
		else if (*c == '=')
			number--;
		else if (*c == 'r')
			kind = ZKLOCK_POSITION_READER;
		else if (*c == 's')
			kind = ZKLOCK_POSITION_LEASE;
		else if (*c >= '0' && *c <= '9')
			positions[graph.npositions - 1].others = *c - '0';
		else
		{
			p->queue = queue;
			p->number = number++;
			p->kind = kind;
			p->waits = p->of_wait = *c >= 'a';
			p->process = (uint32_t) (*c - (p->waits ? 'a' : 'A'));
			kind = ZKLOCK_POSITION_WRITER;
			graph.npositions++;
		}
	}
	qsort(positions, (size_t) graph.npositions, sizeof(positions[0]),
		  zklock_deadlock_graph_compare);
	found = zklock_deadlock_graph_search(&graph, (uint32_t) (self - 'A'));
	assert_int_equal(found, graph.ncycle > 0);
	for (int i = 0; i < graph.ncycle; i++)
		text[i] = (char) ('A' + cycle[i].process);
	text[graph.ncycle] = '\0';
	return text;
}

#define assert_cycle(expected, self, queues, links) \
	assert_string_equal(search(self, queues, links), expected)

static void
nobody_waits(void **state)
{
	(void) state;
	assert_cycle("", 'A', "", "");
	assert_cycle("", 'A', "A", "");
	assert_cycle("", 'A', "A B", "");
	assert_cycle("", 'A', "Bca", "");
}

static void
opposite_directions(void **state)
{
	(void) state;
	assert_cycle("AB", 'A', "Ab Ba", "");
	assert_cycle("BA", 'B', "Ab Ba", "");
	assert_int_equal(cycle[0].position, 1);
	assert_int_equal(cycle[0].blocker, 0);
	assert_int_equal(cycle[1].position, 3);
	assert_int_equal(cycle[1].blocker, 2);
}

static void
cycle_of_many(void **state)
{
	(void) state;
	assert_cycle("ABCDE", 'A', "Ba Cb Dc Ed Ae", "");
	assert_cycle("", 'A', "Ba Cb Dc Ed E", "");
}

/* The one in front of a deadlock is not a member, and breaks none. */
static void
behind_a_deadlock(void **state)
{
	(void) state;
	assert_cycle("", 'C', "Abc Ba", "");
	assert_cycle("AB", 'A', "Abc Ba", "");
}

/* The order of a queue cannot be changed, so those who wait ahead block, too. */
static void
ahead_in_the_queue(void **state)
{
	(void) state;
	assert_cycle("ABC", 'A', "rCbra Ac", "");
	assert_cycle("CAB", 'C', "rCbra Ac", "");
	assert_cycle("AB", 'A', "Cba Ab", "");
}

/* Who blocks a member only with the position that it waits with is no victim. */
static void
only_by_its_wait(void **state)
{
	(void) state;
	assert_cycle("", 'C', "Acb", "AB");
	assert_cycle("BA", 'B', "Acb", "AB");
	assert_cycle("", 'B', "rCbra Ac", "");
	assert_cycle("", 'C', "Acb Ba", "");
	assert_cycle("BA", 'B', "Acb Ba", "");

	/* It also has something. */
	assert_cycle("CA", 'C', "Acb Bd CDa", "");
}

static void
readers(void **state)
{
	(void) state;
	assert_cycle("", 'A', "rArb Ba", "");
	assert_cycle("AB", 'A', "rAb Ba", "");
	assert_cycle("AB", 'A', "Arb Ba", "");

	/* a reader behind a writer behind a reader */
	assert_cycle("BCA", 'B', "rAcrb Ba", "");
	assert_cycle("ABC", 'A', "rAcrb Ba", "");
	assert_cycle("", 'A', "rArcrb Ba", "");
}

/* Those of one number and rank do not block each other. */
static void
equal_numbers(void **state)
{
	(void) state;
	assert_cycle("", 'A', "C a=b", "");
	assert_cycle("", 'B', "Ca=b A", "");
	assert_cycle("CA", 'C', "Ca=b=d Ac", "");
}

/* A process is not blocked by itself. */
static void
itself(void **state)
{
	(void) state;
	assert_cycle("", 'A', "Aa", "");
	assert_cycle("", 'A', "rAa", "AA");
	assert_cycle("AB", 'A', "BAa Ab", "");
}

static void
other_links(void **state)
{
	(void) state;
	assert_cycle("AB", 'A', "Ba", "BA");
	assert_cycle("ACB", 'A', "Ca", "CBBA");
	assert_cycle("", 'A', "Ba", "AB");
	assert_cycle("AB", 'A', "", "ABBA");
	assert_int_equal(cycle[0].position, -1);
	assert_int_equal(cycle[0].blocker, -1);
}

/* Who waits in a queue cannot wait for anything else. */
static void
one_wait(void **state)
{
	(void) state;
	assert_cycle("", 'A', "Ba Cb", "BA");
}

/* Any lease will do, so all holders must be stuck. */
static void
leases(void **state)
{
	(void) state;
	assert_cycle("AB", 'A', "sBsa1 Ab", "");
	assert_cycle("", 'A', "sBsCsa2 Ab", "");
	assert_cycle("AC", 'A', "sBsCsa2 Abc", "");

	/* a lease that is not known here */
	assert_cycle("", 'A', "sBsa2 Ab", "");

	/* C is stuck in another deadlock */
	assert_cycle("AB", 'A', "sBsCsa2 Ab Dc Cd", "");

	/* others that wait for a lease have none */
	assert_cycle("", 'A', "sBsd=sa1 Ad", "");
	assert_cycle("", 'B', "sCsb1 Ba", "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_waits),
		cmocka_unit_test(opposite_directions),
		cmocka_unit_test(cycle_of_many),
		cmocka_unit_test(behind_a_deadlock),
		cmocka_unit_test(ahead_in_the_queue),
		cmocka_unit_test(only_by_its_wait),
		cmocka_unit_test(readers),
		cmocka_unit_test(equal_numbers),
		cmocka_unit_test(itself),
		cmocka_unit_test(other_links),
		cmocka_unit_test(one_wait),
		cmocka_unit_test(leases)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
