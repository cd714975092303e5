/*-------------------------------------------------------------------------
 *
 * gate_test.c
 *	  The gate, call by call: a table of its rules.
 *
 * The simulation of servers (server_sim.h) covers the interaction of several
 * backends, their worker and ZooKeeper through gates.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "protocol/gate.h"

#define WINDOW 100

static ZkLockGate gate;

/*
 * Backends, and the letters of those that were notified since the last check
 */
static ZkLockTurn turns[4];
static char notified[16];

#define A (&turns[0])
#define B (&turns[1])
#define C (&turns[2])
#define D (&turns[3])

static void
tell(ZkLockTurn *turn, void *arg)
{
	size_t		n = strlen(notified);

	assert_ptr_equal(arg, &gate);
	assert_true(n + 1 < sizeof(notified));
	notified[n] = 'A' + (char) (turn - turns);
	notified[n + 1] = '\0';
}

static int
setup(void **state)
{
	(void) state;
	zklock_gate_init(&gate, false, 0);
	memset(turns, 0, sizeof(turns));
	notified[0] = '\0';
	return 0;
}

static bool
join(ZkLockTurn *turn)
{
	return zklock_gate_join(&gate, turn, false, tell, &gate);
}

static bool
try(ZkLockTurn *turn)
{
	return zklock_gate_join(&gate, turn, true, tell, &gate);
}

static bool
delete_at(ZkLockTurn *turn, int64_t now)
{
	return zklock_gate_release(&gate, turn, true, now, WINDOW, tell, &gate);
}

static bool
release_unfit(ZkLockTurn *turn)
{
	return zklock_gate_release(&gate, turn, false, 1000, WINDOW, tell, &gate);
}

/* The wanted node is granted at 1000. */
static void
granted(uint32_t generation, int64_t czxid)
{
	assert_false(zklock_gate_granted(&gate, gate.wanted, generation, czxid, 1000,
									 tell, &gate));
}

static bool
queued(uint64_t serial)
{
	return zklock_gate_queued(&gate, serial, tell, &gate);
}

static bool
failed(uint64_t serial, ZkLockVerdict verdict)
{
	return zklock_gate_failed(&gate, serial, verdict, tell, &gate);
}

static bool
refused(uint64_t serial)
{
	return zklock_gate_refused(&gate, serial, ZKLOCK_TOO_MANY_NODES, tell, &gate);
}

static bool
node_deleted(uint64_t serial)
{
	return zklock_gate_node_deleted(&gate, serial, tell, &gate);
}

static bool
expired(uint32_t generation)
{
	return zklock_gate_expired(&gate, generation, tell, &gate);
}

/* Checks that these backends were notified, in this order, and no others. */
static void
expect_notified(const char *letters)
{
	assert_string_equal(notified, letters);
	notified[0] = '\0';
}

static void
expect_out(const ZkLockTurn *turn, ZkLockVerdict verdict)
{
	assert_int_equal(turn->state, ZKLOCK_TURN_OUT);
	assert_int_equal(turn->verdict, verdict);
}

static void
expect_waiting(const ZkLockTurn *turn, bool knows_of_others)
{
	assert_int_equal(turn->state, ZKLOCK_TURN_WAITING);
	assert_int_equal(turn->verdict, ZKLOCK_PENDING);
	assert_int_equal(turn->queued, knows_of_others);
}

static void
expect_holding(const ZkLockTurn *turn, uint32_t generation, int64_t token,
			   int64_t number)
{
	assert_int_equal(gate.state, ZKLOCK_GATE_HELD);
	assert_int_equal(gate.node.generation, generation);
	assert_int_equal(gate.node.czxid, token);
	assert_int_equal(gate.node.next_number, number + 1);
	assert_ptr_equal(gate.holder, turn);
	assert_int_equal(turn->state, ZKLOCK_TURN_HOLDING);
	assert_int_equal(turn->verdict, ZKLOCK_GRANTED);
	assert_false(turn->lost);
	assert_int_equal(turn->generation, generation);
	assert_int_equal(turn->token, token);
	assert_int_equal(turn->grant_number, number);
}

/* Checks that the gate has no waiter, holder or node. */
static void
expect_free(void)
{
	assert_int_equal(gate.state, ZKLOCK_GATE_EMPTY);
	assert_int_equal(gate.wanted, 0);
	assert_null(gate.holder);
	assert_null(gate.first);
}

/* Checks that the gate has waiters, and wants the node of this serial. */
static void
expect_requested(uint64_t serial)
{
	assert_int_equal(gate.state, ZKLOCK_GATE_REQUESTED);
	assert_int_equal(gate.wanted, serial);
	assert_null(gate.holder);
	assert_non_null(gate.first);
}

/* A holds with node 77 of generation 1, granted at 1000; B and C wait. */
static void
hold_before_two(void)
{
	join(A);
	join(B);
	join(C);
	granted(1, 77);
	notified[0] = '\0';
}

/*
 * One backend.
 */

static void
test_alone(void **state)
{
	(void) state;
	expect_free();
	assert_true(join(A));
	expect_requested(1);
	expect_waiting(A, false);
	expect_notified("");

	granted(1, 77);
	expect_notified("A");
	expect_holding(A, 1, 77, 0);
	assert_int_equal(gate.wanted, 1);

	/* There is no waiter: the node is given up, even within the window. */
	assert_true(delete_at(A, 1001));
	expect_out(A, ZKLOCK_GRANTED);
	expect_free();
	expect_notified("");
}

static void
test_new_serial_each_time(void **state)
{
	(void) state;
	join(A);
	delete_at(A, 0);
	assert_true(join(A));
	assert_int_equal(gate.wanted, 2);

	zklock_gate_init(&gate, false, gate.last_serial);
	memset(turns, 0, sizeof(turns));
	assert_true(join(A));
	assert_int_equal(gate.wanted, 3);
}

static void
test_gives_up_waiting(void **state)
{
	(void) state;
	join(A);
	assert_true(delete_at(A, 0));
	expect_free();

	/* A later verdict about the node is ignored. */
	assert_false(zklock_gate_granted(&gate, 1, 1, 77, 1000, tell, &gate));
	expect_free();
	expect_notified("");

	/* A second release has no effect. */
	assert_false(delete_at(A, 0));
	expect_free();
}

/*
 * Hand-over.
 */

static void
test_passed_on(void **state)
{
	(void) state;
	join(A);
	assert_false(join(B));
	assert_false(join(C));
	expect_waiting(B, true);
	granted(1, 77);
	expect_notified("A");

	assert_false(delete_at(A, 1000));
	expect_notified("B");
	expect_out(A, ZKLOCK_GRANTED);
	expect_holding(B, 1, 77, 1);

	/* A backend that joins again is last. */
	assert_false(join(A));
	assert_false(delete_at(B, 1000 + WINDOW - 1));
	expect_holding(C, 1, 77, 2);
	expect_waiting(A, true);
	expect_notified("C");
	assert_int_equal(gate.wanted, 1);
}

static void
test_window_is_over(void **state)
{
	(void) state;
	hold_before_two();
	assert_true(delete_at(A, 1000 + WINDOW));
	expect_notified("");
	expect_requested(2);
	expect_waiting(B, true);

	/* A new node, and a new count of grants. */
	granted(1, 99);
	expect_notified("B");
	expect_holding(B, 1, 99, 0);
	assert_false(delete_at(B, 1001));
	expect_holding(C, 1, 99, 1);
}

/* A late grant is used, and its window begins with it. */
static void
test_window_begins_with_grant(void **state)
{
	(void) state;
	join(A);
	join(B);
	queued(1);
	assert_false(zklock_gate_granted(&gate, 1, 1, 77, 50000, tell, &gate));
	expect_holding(A, 1, 77, 0);
	assert_false(delete_at(A, 50000 + WINDOW - 1));
	expect_holding(B, 1, 77, 1);
}

static void
test_unfit(void **state)
{
	(void) state;
	hold_before_two();
	assert_true(release_unfit(A));
	expect_notified("");
	expect_requested(2);
	expect_waiting(B, true);
}

static void
test_handover_forbidden(void **state)
{
	(void) state;
	hold_before_two();

	/* A backend without the lock cannot forbid the hand-over. */
	zklock_gate_forbid_handover(&gate, B);
	assert_false(gate.node.handover_forbidden);
	zklock_gate_forbid_handover(&gate, A);
	assert_true(delete_at(A, 1001));
	assert_int_equal(gate.wanted, 2);
	expect_notified("");

	/* The hand-over of the next node is not forbidden. */
	granted(1, 99);
	assert_false(delete_at(B, 1001));
	expect_holding(C, 1, 99, 1);
}

/*
 * The node in the queue.
 */

static void
test_ticket_kept_for_others(void **state)
{
	(void) state;
	join(A);
	join(B);

	/* A leaves, but B still wants the node. */
	assert_false(delete_at(A, 0));
	assert_int_equal(gate.wanted, 1);
	granted(1, 77);
	expect_holding(B, 1, 77, 0);
}

static void
test_releases_the_middle(void **state)
{
	(void) state;
	join(A);
	join(B);
	join(C);
	assert_false(delete_at(B, 0));
	granted(1, 77);
	delete_at(A, 1000);
	expect_holding(C, 1, 77, 1);
	assert_null(gate.first);
	assert_null(gate.last);
}

static void
test_news_of_another_node(void **state)
{
	(void) state;
	hold_before_two();
	delete_at(A, 1000 + WINDOW);

	/* All these verdicts come too late. */
	assert_false(zklock_gate_granted(&gate, 1, 1, 77, 1000, tell, &gate));
	assert_false(queued(1));
	assert_false(failed(1, ZKLOCK_DENIED));
	assert_false(node_deleted(1));
	assert_false(queued(0));
	expect_requested(2);
	assert_false(gate.node.queued);
	expect_notified("");
}

static void
test_news_of_a_held_node(void **state)
{
	(void) state;
	hold_before_two();
	assert_false(zklock_gate_granted(&gate, 1, 1, 78, 2000, tell, &gate));
	assert_false(queued(1));
	assert_false(failed(1, ZKLOCK_DENIED));
	expect_holding(A, 1, 77, 0);
	expect_notified("");
}

static void
test_node_fails(void **state)
{
	(void) state;
	join(A);
	join(B);
	expect_notified("");
	assert_true(failed(1, ZKLOCK_DENIED));
	expect_notified("AB");
	expect_out(A, ZKLOCK_DENIED);
	expect_out(B, ZKLOCK_DENIED);
	expect_free();

	/*
	 * The failure ends all waits: a backend that joins again is behind
	 * earlier ones.
	 */
	join(C);
	join(A);
	granted(1, 77);
	expect_holding(C, 1, 77, 0);
}

/* A node that was not requested for want of room concerns the first backend only. */
static void
test_node_refused(void **state)
{
	(void) state;
	assert_false(refused(0));
	join(A);
	join(B);
	join(C);
	assert_false(refused(2));
	expect_notified("");
	assert_true(refused(1));
	expect_notified("A");
	expect_out(A, ZKLOCK_TOO_MANY_NODES);
	assert_int_equal(gate.wanted, 2);
	assert_false(refused(1));
	assert_true(refused(2));
	expect_notified("B");
	granted(1, 77);
	expect_notified("C");
	expect_holding(C, 1, 77, 0);
	assert_false(refused(3));

	/* A node that is held is not refused, nor is who waits behind it. */
	join(A);
	expect_notified("");
	assert_false(refused(3));
	assert_false(delete_at(C, 1000));
	expect_notified("A");
	assert_true(delete_at(A, 1000));
	expect_free();

	/* The last one leaves no node. */
	join(B);
	assert_true(refused(gate.wanted));
	expect_notified("B");
	expect_free();
}

static void
test_node_deleted(void **state)
{
	(void) state;
	hold_before_two();
	assert_true(node_deleted(1));
	expect_notified("A");
	assert_true(A->lost);
	assert_int_equal(A->state, ZKLOCK_TURN_HOLDING);

	/* The others still wait, for another node. */
	expect_requested(2);
	expect_waiting(B, true);
	granted(1, 99);
	expect_notified("B");

	/* The gate has nothing to do with A's lost hold. */
	assert_false(delete_at(A, 1001));
	expect_out(A, ZKLOCK_GRANTED);
	expect_holding(B, 1, 99, 0);
	expect_notified("");
}

/* A waiting attempt watches its node itself. */
static void
test_waiting_node_deleted(void **state)
{
	(void) state;
	join(A);
	assert_false(node_deleted(1));
	expect_requested(1);
	expect_waiting(A, false);
}

/*
 * Attempts without a wait.
 */

static void
test_try_free(void **state)
{
	(void) state;
	assert_true(try(A));
	expect_waiting(A, false);
	granted(1, 77);
	expect_holding(A, 1, 77, 0);
}

static void
test_try_behind_holder(void **state)
{
	(void) state;
	join(A);
	granted(1, 77);
	expect_notified("A");
	assert_false(try(B));
	expect_out(B, ZKLOCK_TIMED_OUT);
	assert_true(B->queued);
	expect_notified("");
	expect_holding(A, 1, 77, 0);
}

static void
test_try_behind_waiter(void **state)
{
	(void) state;
	join(A);
	assert_false(try(B));
	expect_out(B, ZKLOCK_TIMED_OUT);
	assert_true(B->queued);
}

static void
test_try_behind_others(void **state)
{
	(void) state;
	try(A);
	assert_true(queued(1));
	expect_notified("A");
	expect_out(A, ZKLOCK_TIMED_OUT);
	assert_true(A->queued);

	/* There is no waiter left. */
	expect_free();
}

/*
 * A waiter does not share a node with an attempt without a wait, and vice
 * versa.
 */
static void
test_try_before_waiter(void **state)
{
	(void) state;
	try(A);
	join(B);
	assert_false(queued(1));
	expect_notified("A");
	expect_out(A, ZKLOCK_TIMED_OUT);
	assert_int_equal(gate.wanted, 1);
	granted(1, 77);
	expect_notified("B");
	expect_holding(B, 1, 77, 0);
}

static void
test_others_ahead_told_once(void **state)
{
	(void) state;
	join(A);
	join(B);
	expect_waiting(A, false);
	expect_waiting(B, true);
	assert_false(queued(1));
	expect_notified("A");
	expect_waiting(A, true);
	assert_false(queued(1));
	expect_notified("");
}

/* A node that is behind others is not used for the next attempt. */
static void
test_try_after_others(void **state)
{
	(void) state;
	join(A);
	queued(1);
	delete_at(A, 0);
	assert_true(try(B));
	expect_waiting(B, false);
}

/*
 * The end of a session.
 */

static void
test_waiters_decide(void **state)
{
	(void) state;
	join(A);
	join(B);
	assert_true(expired(1));
	expect_notified("AB");
	expect_out(A, ZKLOCK_EXPIRED);
	expect_out(B, ZKLOCK_EXPIRED);
	expect_free();

	/* There is no waiter left. */
	assert_false(expired(1));
	expect_free();
}

static void
test_ticket_kept(void **state)
{
	(void) state;
	join(A);
	join(B);
	join(C);
	expired(1);
	notified[0] = '\0';

	/* Former waiters come back in any order, with a new one. */
	assert_true(join(D));
	assert_false(join(C));
	assert_false(join(A));
	assert_false(join(B));
	granted(2, 99);
	expect_holding(A, 2, 99, 0);
	delete_at(A, 1001);
	expect_holding(B, 2, 99, 1);
	delete_at(B, 1002);
	expect_holding(C, 2, 99, 2);
	delete_at(C, 1003);
	expect_holding(D, 2, 99, 3);
}

static void
test_ticket_given_up(void **state)
{
	(void) state;
	join(A);
	expired(1);
	assert_false(delete_at(A, 0));
	join(B);
	join(A);
	granted(2, 99);
	expect_holding(B, 2, 99, 0);
}

/*
 * A waiter that takes its place again is ahead of an attempt without a wait.
 */
static void
test_try_overtaken(void **state)
{
	(void) state;
	join(A);
	expired(1);
	try(B);
	expect_waiting(B, false);
	notified[0] = '\0';
	assert_false(join(A));
	expect_notified("B");
	expect_out(B, ZKLOCK_TIMED_OUT);
}

static void
test_holder_finds_out(void **state)
{
	(void) state;
	hold_before_two();
	assert_true(expired(1));
	expect_notified("ABC");
	assert_int_equal(A->state, ZKLOCK_TURN_HOLDING);
	assert_int_equal(A->generation, 1);
	assert_true(A->lost);
	expect_out(B, ZKLOCK_EXPIRED);
	assert_int_equal(gate.wanted, 0);

	/* A's release does not affect the grant of the new session. */
	assert_true(join(B));
	granted(2, 99);
	assert_false(join(C));
	assert_false(delete_at(A, 1001));
	expect_out(A, ZKLOCK_GRANTED);
	expect_holding(B, 2, 99, 0);

	/* An old notice does not affect it, either. */
	assert_false(expired(1));
	expect_holding(B, 2, 99, 0);
	expect_waiting(C, true);
}

/* A lost hold cannot forbid the hand-over of the next one. */
static void
test_lost_holder_forbids_nothing(void **state)
{
	(void) state;
	hold_before_two();
	expired(1);
	join(B);
	granted(2, 99);
	zklock_gate_forbid_handover(&gate, A);
	assert_false(gate.node.handover_forbidden);
}

/*
 * A backend wakes after its grant was lost with the session, and joins again.
 */
static void
test_lost_grant_again(void **state)
{
	(void) state;
	hold_before_two();
	expired(1);
	join(C);
	join(B);
	assert_false(join(A));
	expect_waiting(A, false);
	assert_false(A->lost);
	granted(2, 99);
	expect_holding(A, 2, 99, 0);
}

/* A backend may join again if it has left, or has lost its hold. */
static void
test_may_rejoin(void **state)
{
	(void) state;
	assert_true(zklock_gate_may_rejoin(A, 1));
	hold_before_two();
	assert_false(zklock_gate_may_rejoin(A, 1));
	assert_false(zklock_gate_may_rejoin(B, 1));
	assert_false(zklock_gate_may_rejoin(B, 2));
	assert_true(zklock_gate_may_rejoin(A, 2));
	expired(1);
	assert_true(zklock_gate_may_rejoin(A, 1));
	assert_true(zklock_gate_may_rejoin(B, 1));
}

/* The same before the gate has been notified. */
static void
test_lost_grant_not_told_yet(void **state)
{
	(void) state;
	hold_before_two();
	assert_true(join(A));
	expect_waiting(A, false);
	expect_requested(2);
	assert_true(expired(1));
	expect_notified("ABC");
	assert_true(join(B));
	assert_false(join(A));
	granted(2, 99);
	expect_holding(A, 2, 99, 0);
}

/*
 * Nodes that are kept.  The window is over at 1100, half of it at 1050.
 */

static bool
keep_at(ZkLockTurn *turn, int64_t now, uint32_t epoch)
{
	ZkLockGateTerms terms = {
		.fit = true,.epoch = epoch,.now = now,.window = WINDOW,.trust = 5000
	};

	return zklock_gate_keep(&gate, turn, &terms);
}

static bool
regrant_at(ZkLockTurn *turn, int64_t now, uint32_t epoch)
{
	ZkLockGateTerms terms = {
		.fit = true,.epoch = epoch,.now = now,.window = WINDOW,.trust = 5000
	};

	return zklock_gate_regrant(&gate, turn, &terms);
}

static bool
look_at(int64_t now, uint32_t epoch)
{
	ZkLockGateTerms terms = {.epoch = epoch,.now = now,.window = WINDOW,.trust = 5000};

	return zklock_gate_ask_look(&gate, &terms);
}

static bool
alone_at(int64_t sent, uint32_t epoch)
{
	return zklock_gate_looked(&gate, gate.wanted, gate.node.look, true, epoch, sent);
}

/* A has a node that may be kept. */
static void
hold_keepable(void)
{
	(void) join(A);
	granted(1, 10);
	zklock_gate_permit_keep(&gate, gate.wanted, false);
	notified[0] = '\0';
}

static void
test_kept(void **state)
{
	uint64_t	serial;

	(void) state;
	hold_keepable();
	serial = gate.wanted;
	assert_true(keep_at(A, 1001, 1));
	assert_int_equal(gate.state, ZKLOCK_GATE_KEPT);
	assert_int_equal(A->state, ZKLOCK_TURN_OUT);
	assert_true(regrant_at(B, 1002, 1));
	assert_int_equal(B->state, ZKLOCK_TURN_HOLDING);
	assert_int_equal(B->grant_number, 1);
	assert_int_equal(B->token, 10);
	assert_int_equal(gate.wanted, serial);
	assert_string_equal(notified, "");
}

static void
test_not_kept(void **state)
{
	ZkLockGateTerms terms = {.epoch = 1,.now = 1001,.window = WINDOW,.trust = 5000};

	(void) state;
	(void) join(A);
	granted(1, 10);
	assert_false(keep_at(A, 1001, 1));	/* it was not permitted */
	zklock_gate_permit_keep(&gate, gate.wanted, false);
	assert_false(keep_at(B, 1001, 1));
	assert_false(keep_at(A, 1001, 0));
	assert_false(zklock_gate_keep(&gate, A, &terms));	/* not fit */
	(void) join(B);
	assert_false(keep_at(A, 1001, 1));
	(void) delete_at(B, 1001);
	zklock_gate_forbid_handover(&gate, A);
	assert_false(keep_at(A, 1001, 1));
	assert_int_equal(gate.state, ZKLOCK_GATE_HELD);
}

static void
test_not_granted_again(void **state)
{
	ZkLockGateTerms terms = {
		.fit = true,.epoch = 1,.now = 1001,.window = WINDOW,.trust = 5000
	};

	(void) state;
	hold_keepable();
	assert_false(regrant_at(B, 1001, 1));	/* it is held */
	(void) keep_at(A, 1001, 1);
	assert_false(regrant_at(B, 1001, 2));
	assert_false(regrant_at(B, 1001, 0));
	assert_false(regrant_at(B, 1100, 1));	/* nobody has looked */
	B->revocable = true;
	assert_false(zklock_gate_regrant(&gate, B, &terms));
	B->revocable = terms.fit = false;
	assert_false(zklock_gate_regrant(&gate, B, &terms));
	assert_int_equal(B->state, ZKLOCK_TURN_OUT);

	/* Who joins wants another node. */
	assert_true(join(B));
	assert_int_equal(gate.state, ZKLOCK_GATE_REQUESTED);
	assert_int_equal(gate.wanted, 2);
}

static void
test_looks(void **state)
{
	(void) state;
	hold_keepable();
	assert_false(look_at(1049, 1));
	assert_true(look_at(1050, 1));
	assert_false(look_at(1051, 1)); /* it is under way */
	assert_false(alone_at(1050, 1));
	assert_false(look_at(3549, 1));
	(void) keep_at(A, 3549, 1);
	assert_true(regrant_at(B, 3549, 1));
	assert_true(look_at(3550, 1));	/* again */
	(void) keep_at(B, 6050, 1);
	assert_false(regrant_at(A, 6050, 1));	/* without an answer for too long */
	assert_false(alone_at(6049, 1));
	assert_true(regrant_at(A, 6050, 1));

	/* In another epoch it is not known any more. */
	(void) keep_at(A, 6051, 2);
	assert_false(regrant_at(B, 6051, 2));
	assert_true(look_at(6051, 2));
	assert_false(zklock_gate_looked(&gate, 1, gate.node.look - 1, true, 2, 6051));
	assert_false(regrant_at(B, 6051, 2));
	assert_true(zklock_gate_looked(&gate, 1, gate.node.look, false, 2, 6051));
	assert_int_equal(gate.state, ZKLOCK_GATE_EMPTY);
}

static void
test_rival(void **state)
{
	(void) state;
	hold_keepable();
	assert_false(zklock_gate_rival(&gate, gate.wanted));
	assert_false(keep_at(A, 1001, 1));
	assert_false(look_at(1060, 1));
	assert_true(delete_at(A, 1060));

	hold_keepable();
	(void) keep_at(A, 1001, 1);
	assert_false(zklock_gate_rival(&gate, 1));
	assert_true(zklock_gate_rival(&gate, 2));
	assert_int_equal(gate.wanted, 0);
}

static void
test_news_of_a_kept_node(void **state)
{
	(void) state;
	hold_keepable();
	(void) keep_at(A, 1001, 1);
	granted(1, 11);
	assert_false(queued(1));
	assert_false(failed(1, ZKLOCK_DENIED));
	assert_int_equal(gate.state, ZKLOCK_GATE_KEPT);
	assert_int_equal(gate.node.czxid, 10);
	assert_false(expired(0));
	assert_true(node_deleted(1));
	assert_int_equal(gate.wanted, 0);

	hold_keepable();
	(void) keep_at(A, 1001, 1);
	assert_true(expired(1));
	assert_int_equal(gate.state, ZKLOCK_GATE_EMPTY);
	assert_string_equal(notified, "");
}

static void
test_release_beside_a_kept_node(void **state)
{
	(void) state;
	hold_keepable();
	(void) keep_at(A, 1001, 1);
	assert_false(delete_at(A, 1002));
	assert_false(release_unfit(B));
	assert_int_equal(gate.state, ZKLOCK_GATE_KEPT);
	assert_true(zklock_gate_drop_kept(&gate));
	assert_false(zklock_gate_drop_kept(&gate));
}

static void
test_try_behind_a_kept_node(void **state)
{
	(void) state;
	(void) try(A);
	assert_false(zklock_gate_yielding(&gate, gate.wanted, tell, &gate));
	assert_int_equal(A->verdict, ZKLOCK_PENDING);
	assert_true(A->queued);
	assert_string_equal(notified, "A");
	(void) try(B);
	assert_int_equal(B->verdict, ZKLOCK_TIMED_OUT);
	granted(1, 10);
	assert_int_equal(A->verdict, ZKLOCK_GRANTED);
}

static void
test_try_behind_a_used_node(void **state)
{
	(void) state;
	(void) try(A);
	(void) zklock_gate_yielding(&gate, gate.wanted, tell, &gate);
	assert_true(queued(gate.wanted));
	assert_int_equal(A->verdict, ZKLOCK_TIMED_OUT);
	assert_int_equal(gate.wanted, 0);
}

/*
 * Readers.  The window is over at 1100.
 */

static int
setup_readers(void **state)
{
	int			rc = setup(state);

	zklock_gate_init(&gate, true, 0);
	return rc;
}

static bool
admits_at(const ZkLockTurn *turn, int64_t now)
{
	ZkLockGateTerms terms = {.fit = true,.epoch = 1,.now = now,.window = WINDOW};

	return zklock_gate_admits(&gate, turn, &terms);
}

/* A and B have waited together, and hold with node 77 of generation 1. */
static void
hold_together(void)
{
	join(A);
	join(B);
	granted(1, 77);
	notified[0] = '\0';
}

static void
expect_holders(const char *letters)
{
	char		holders[sizeof(notified)] = "";
	size_t		n = 0;

	for (const ZkLockTurn *turn = gate.holder; turn != NULL; turn = turn->next)
	{
		assert_int_equal(turn->state, ZKLOCK_TURN_HOLDING);
		assert_int_equal(turn->verdict, ZKLOCK_GRANTED);
		assert_false(turn->lost);
		assert_int_equal(turn->generation, gate.node.generation);
		assert_int_equal(turn->token, gate.node.czxid);
		assert_int_equal(turn->grant_number, 0);
		holders[n++] = 'A' + (char) (turn - turns);
	}
	assert_string_equal(holders, letters);
}

static void
test_readers_wait_together(void **state)
{
	(void) state;
	assert_true(admits_at(A, 0));
	assert_true(join(A));
	assert_true(admits_at(B, 0));
	assert_false(join(B));
	expect_waiting(B, false);
	expect_notified("");
	assert_false(queued(1));
	expect_notified("AB");
	assert_false(join(C));
	expect_waiting(C, true);
	granted(1, 77);
	expect_notified("ABC");
	expect_holders("CBA");
	assert_false(A->joined);
	assert_true(B->joined && C->joined);
	assert_null(gate.first);
	assert_null(gate.last);
}

static void
test_reader_joins(void **state)
{
	(void) state;
	hold_together();
	assert_true(admits_at(C, 1000 + WINDOW - 1));
	assert_false(join(C));
	expect_notified("");
	expect_holders("CBA");
	assert_true(C->joined);
	assert_int_equal(gate.wanted, 1);

	/* So does one that does not want to wait: nobody is ahead of it. */
	assert_false(try(D));
	expect_holders("DCBA");
	assert_false(D->queued);
}

static void
test_reader_must_not_join(void **state)
{
	ZkLockGateTerms terms = {.epoch = 1,.now = 1001,.window = WINDOW};

	(void) state;
	hold_together();
	assert_false(admits_at(C, 1000 + WINDOW));
	assert_false(zklock_gate_admits(&gate, C, &terms)); /* not fit */
	C->revocable = true;
	assert_false(admits_at(C, 1001));
	C->revocable = false;
	assert_true(admits_at(C, 1001));
	zklock_gate_forbid_handover(&gate, A);
	assert_false(admits_at(C, 1001));
}

/* Nor does it wait with others that request a node that is unlike its own. */
static void
test_reader_must_not_wait(void **state)
{
	(void) state;
	join(A);
	B->revocable = true;
	assert_false(admits_at(B, 0));
	delete_at(A, 0);
	assert_true(admits_at(B, 0));
	join(B);
	assert_false(admits_at(A, 0));
}

static void
test_readers_shut_out(void **state)
{
	(void) state;
	zklock_gate_shut(&gate);
	assert_true(admits_at(A, 0));
	join(A);
	zklock_gate_shut(&gate);
	assert_false(admits_at(B, 0));
	granted(1, 77);
	expect_holders("A");
	assert_false(admits_at(B, 1001));

	/* This ends with the node. */
	assert_true(delete_at(A, 1001));
	expect_free();
	join(B);
	granted(1, 78);
	assert_true(admits_at(A, 1001));
	zklock_gate_shut(&gate);
	assert_false(admits_at(A, 1001));
}

static void
test_last_reader(void **state)
{
	(void) state;
	hold_together();
	join(C);
	assert_false(delete_at(B, 1001));
	expect_out(B, ZKLOCK_GRANTED);
	expect_holders("CA");
	assert_false(release_unfit(C));
	expect_holders("A");
	assert_false(delete_at(C, 1001));	/* it is out already */
	expect_holders("A");
	assert_false(join(B));
	assert_false(delete_at(A, 1001));
	expect_holders("B");
	assert_true(delete_at(B, 1001));
	expect_free();
	expect_notified("");
}

static void
test_reader_gives_up_waiting(void **state)
{
	(void) state;
	join(A);
	join(B);
	assert_false(delete_at(A, 0));
	expect_requested(1);
	assert_true(delete_at(B, 0));
	expect_free();
}

static void
test_readers_that_try(void **state)
{
	(void) state;
	try(A);
	join(B);
	try(C);
	expect_waiting(A, false);
	expect_waiting(C, false);
	assert_false(zklock_gate_yielding(&gate, 1, tell, &gate));
	expect_notified("ABC");
	expect_waiting(C, true);
	assert_false(queued(1));
	expect_notified("AC");
	expect_out(A, ZKLOCK_TIMED_OUT);
	expect_out(C, ZKLOCK_TIMED_OUT);
	assert_false(try(D));
	expect_out(D, ZKLOCK_TIMED_OUT);
	granted(1, 77);
	expect_holders("B");
}

static void
test_readers_lose_node(void **state)
{
	(void) state;
	hold_together();
	join(C);
	assert_true(node_deleted(1));
	expect_notified("CBA");
	assert_true(A->lost && B->lost && C->lost);
	expect_free();

	/* Whoever leaves, or comes again, has nothing to do with the next node. */
	assert_true(join(A));
	granted(1, 78);
	assert_false(delete_at(B, 1001));
	expect_holders("A");
	assert_true(admits_at(C, 1001));
	assert_false(join(C));
	expect_holders("CA");
	assert_false(delete_at(C, 1001));
	expect_holders("A");
}

static void
test_readers_lose_session(void **state)
{
	(void) state;
	hold_together();
	assert_true(expired(1));
	expect_notified("BA");
	assert_true(A->lost && B->lost);
	expect_free();
	join(C);
	expired(1);
	expect_out(C, ZKLOCK_EXPIRED);

	/*
	 * One comes again before the gate was told: the others have lost the
	 * node, too.
	 */
	hold_together();
	assert_true(join(A));
	expect_notified("B");
	assert_true(B->lost);
	expect_waiting(A, false);
	expect_requested(4);
}

static void
test_readers_keep_nothing(void **state)
{
	(void) state;
	join(A);
	granted(1, 77);
	assert_false(join(B));
	zklock_gate_permit_keep(&gate, gate.wanted, false);
	assert_false(keep_at(B, 1001, 1));
	assert_false(look_at(1060, 1));
	expect_holders("BA");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_readers_wait_together, setup_readers),
		cmocka_unit_test_setup(test_reader_joins, setup_readers),
		cmocka_unit_test_setup(test_reader_must_not_join, setup_readers),
		cmocka_unit_test_setup(test_reader_must_not_wait, setup_readers),
		cmocka_unit_test_setup(test_readers_shut_out, setup_readers),
		cmocka_unit_test_setup(test_last_reader, setup_readers),
		cmocka_unit_test_setup(test_reader_gives_up_waiting, setup_readers),
		cmocka_unit_test_setup(test_readers_that_try, setup_readers),
		cmocka_unit_test_setup(test_readers_lose_node, setup_readers),
		cmocka_unit_test_setup(test_readers_lose_session, setup_readers),
		cmocka_unit_test_setup(test_readers_keep_nothing, setup_readers),
		cmocka_unit_test_setup(test_kept, setup),
		cmocka_unit_test_setup(test_not_kept, setup),
		cmocka_unit_test_setup(test_not_granted_again, setup),
		cmocka_unit_test_setup(test_looks, setup),
		cmocka_unit_test_setup(test_rival, setup),
		cmocka_unit_test_setup(test_news_of_a_kept_node, setup),
		cmocka_unit_test_setup(test_release_beside_a_kept_node, setup),
		cmocka_unit_test_setup(test_try_behind_a_kept_node, setup),
		cmocka_unit_test_setup(test_try_behind_a_used_node, setup),
		cmocka_unit_test_setup(test_alone, setup),
		cmocka_unit_test_setup(test_new_serial_each_time, setup),
		cmocka_unit_test_setup(test_gives_up_waiting, setup),
		cmocka_unit_test_setup(test_passed_on, setup),
		cmocka_unit_test_setup(test_window_is_over, setup),
		cmocka_unit_test_setup(test_window_begins_with_grant, setup),
		cmocka_unit_test_setup(test_unfit, setup),
		cmocka_unit_test_setup(test_handover_forbidden, setup),
		cmocka_unit_test_setup(test_ticket_kept_for_others, setup),
		cmocka_unit_test_setup(test_releases_the_middle, setup),
		cmocka_unit_test_setup(test_news_of_another_node, setup),
		cmocka_unit_test_setup(test_news_of_a_held_node, setup),
		cmocka_unit_test_setup(test_node_fails, setup),
		cmocka_unit_test_setup(test_node_refused, setup),
		cmocka_unit_test_setup(test_node_deleted, setup),
		cmocka_unit_test_setup(test_waiting_node_deleted, setup),
		cmocka_unit_test_setup(test_try_free, setup),
		cmocka_unit_test_setup(test_try_behind_holder, setup),
		cmocka_unit_test_setup(test_try_behind_waiter, setup),
		cmocka_unit_test_setup(test_try_behind_others, setup),
		cmocka_unit_test_setup(test_try_before_waiter, setup),
		cmocka_unit_test_setup(test_others_ahead_told_once, setup),
		cmocka_unit_test_setup(test_try_after_others, setup),
		cmocka_unit_test_setup(test_waiters_decide, setup),
		cmocka_unit_test_setup(test_ticket_kept, setup),
		cmocka_unit_test_setup(test_ticket_given_up, setup),
		cmocka_unit_test_setup(test_try_overtaken, setup),
		cmocka_unit_test_setup(test_holder_finds_out, setup),
		cmocka_unit_test_setup(test_lost_holder_forbids_nothing, setup),
		cmocka_unit_test_setup(test_lost_grant_again, setup),
		cmocka_unit_test_setup(test_lost_grant_not_told_yet, setup),
		cmocka_unit_test_setup(test_may_rejoin, setup)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
