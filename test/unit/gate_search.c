/*-------------------------------------------------------------------------
 *
 * gate_search.c
 *	  Each call of a gate in each state that three backends can bring it into.
 *
 * The search is breadth first, from a gate that has just been initialized.  Each call is
 * made to the gate, and applied to what was known of it (Facts) by the rules of gate.h,
 * which are written here without the lists and the short cuts of gate.c.  Then both have
 * to agree, and exactly those have been told that gate.h says.
 *
 * Two states are the same if they differ only in the names of backends, in the values of
 * serials, tokens, tickets, generations and epochs, in how long a time is over, and in
 * what is not valid (gate.h).
 *
 * There are two searches, of a gate of one holder and of a gate of readers; with an argument,
 * which names one of them, only that one is played.
 *
 * If a rule is broken, the shortest sequence of calls to that is printed.  It is an error,
 * too, if there are more states than there is room for.
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/gate.h"

#define N 3						/* backends */
#define WINDOW 2
#define TRUST 3
#define FORMER_SERIAL 7			/* of the gate that was in this memory before */
#define MAX_STATES 300000
#define TABLE_SIZE (1 << 20)
#define KEY_SIZE 16

#define Min(x, y) ((x) < (y) ? (x) : (y))
#define ELEMENTS(array) ((int) (sizeof(array) / sizeof((array)[0])))

/* A call of the gate, by one of the backends or by the worker, or something else */
typedef struct Kind
{
	const char *name;
	void		(*play) (void);
	bool		(*may_play) (void); /* NULL: always */
	const char *const *variants;
	bool		by_backend;
} Kind;

typedef struct Call
{
	const Kind *kind;
	int			who;
	int			variant;
} Call;

/* A gate with its backends, and what its driver knows */
typedef struct State
{
	ZkLockGate	gate;
	ZkLockTurn	turns[N];
	uint64_t	former_serial;
	ZkLockSerial last_serial;
	int64_t		last_czxid;
	int64_t		now;
	ZkLockGeneration generation;
	ZkLockEpoch epoch;
	ZkLockEpoch last_epoch;

	/* of the search */
	int			from;			/* -1: it is the first state */
	Call		call;			/* by which it was reached */
	int			to_rest;		/* the next state on the way to a gate at rest */
} State;

static State *states;
static unsigned char (*keys)[KEY_SIZE];
static int	nstates;
static int *table;				/* 1 + the index of a state, by its key's hash */
static long ncalls;
static bool shared;				/* is it a gate of readers? */
static int	nplayed;			/* searches */

static int	present;			/* the state in which calls are made now */
static Call call;				/* kind NULL: none */

/* The state during a call.  The pointers of all states point into this one. */
static State s;

/*
 * What is known of a gate.  All fields have one type, so that there are no bytes between
 * them.
 */
typedef enum Part
{
	OUT,
	WAITS,
	HOLDS,
	LOST						/* it has lost the lock, and not released it */
} Part;

#define NODE_FIELDS(X) \
	X(queued); X(yielding); X(revocable); X(shut); X(generation); X(czxid); X(next_number); \
	X(granted_at); X(handover_forbidden); X(keepable); X(rival); X(look); X(looked); \
	X(alone_epoch); X(alone_at); X(kept_epoch); X(kept_at)
#define TURN_FIELDS(X) \
	X(nowait); X(revocable); X(queued); X(verdict); \
	X(was_kept); X(joined); X(generation); X(token); X(grant_number)
#define DECLARE(field) int64_t field

typedef struct Node
{
	NODE_FIELDS(DECLARE);
} Node;

typedef struct Backend
{
	TURN_FIELDS(DECLARE);
	int64_t		part;
	int64_t		place;			/* from 1 on; 0: it has none */
} Backend;

typedef struct Facts
{
	int64_t		state;
	int64_t		wanted;
	Node		node;
	Backend		backends[N];
} Facts;

static Facts before;			/* the call */
static Facts f;					/* what has to be after it */

static int	ntold[N];			/* how often a backend was told */
static ZkLockTurn told[N];		/* its turn at that time */

static void breach(const char *fmt,...) __attribute__((format(printf, 1, 2), noreturn));

/*
 * What a gate shows
 */

/* The rank, from 1 on, of one of these numbers among those that are not 0 */
static int
rank_of(const int64_t *numbers, int i)
{
	int			rank = numbers[i] != 0;

	for (int j = 0; j < N && numbers[i] != 0; j++)
		rank += numbers[j] != 0 && numbers[j] < numbers[i];
	return rank;
}

/* Leave only what is valid, and no gaps between places. */
static void
tidy(Facts *facts)
{
	int64_t		places[N];

	if (facts->state == ZKLOCK_GATE_EMPTY)
		facts->node = (Node) {0};
	if (facts->state != ZKLOCK_GATE_KEPT)
		facts->node.kept_epoch = facts->node.kept_at = 0;
	for (int i = 0; i < N; i++)
		places[i] = facts->backends[i].place;
	for (int i = 0; i < N; i++)
	{
		Backend    *b = &facts->backends[i];

		b->place = rank_of(places, i);
		if (b->part != WAITS)
			b->nowait = 0;
		if (b->part != HOLDS && b->part != LOST)
			b->was_kept = b->joined = b->generation = b->token = b->grant_number = 0;
	}
}

/* Are those that wait in the queue, in their order, and the holders among the holders? */
static void
check_lists(const Facts *facts)
{
	const ZkLockTurn *waiter = s.gate.first;
	const ZkLockTurn *holder = s.gate.holder;
	uint64_t	rank = 0;

	for (int place = 1; place <= N; place++)
		for (int i = 0; i < N; i++)
			if (facts->backends[i].part == WAITS && facts->backends[i].place == place)
			{
				if (waiter != &s.turns[i] || zklock_gate_rank(waiter) <= rank)
					breach("%c is not in its place", 'A' + i);
				rank = zklock_gate_rank(waiter);
				waiter = waiter->next;
			}
	for (int i = 0; i < N; i++)
		if (facts->backends[i].part == HOLDS)
		{
			if (holder == NULL || holder->state != ZKLOCK_TURN_HOLDING || holder->lost ||
				zklock_gate_rank(holder) != 0)
				breach("a holder is not among the holders");
			holder = holder->next;
		}
	if (waiter != NULL || holder != NULL)
		breach("there is another one among the waiters, or the holders");
}

static void
observe(Facts *facts)
{
#define OBSERVE_NODE(field) facts->node.field = s.gate.node.field
#define OBSERVE_TURN(field) b->field = turn->field

	facts->state = s.gate.state;
	facts->wanted = (int64_t) s.gate.wanted;
	NODE_FIELDS(OBSERVE_NODE);
	for (int i = 0; i < N; i++)
	{
		const ZkLockTurn *turn = &s.turns[i];
		Backend    *b = &facts->backends[i];

		b->part = turn->state == ZKLOCK_TURN_OUT ? OUT :
			turn->state == ZKLOCK_TURN_WAITING ? WAITS : turn->lost ? LOST : HOLDS;
		b->place = (int64_t) turn->ticket;
		TURN_FIELDS(OBSERVE_TURN);
	}
	tidy(facts);
	check_lists(facts);
}

/*
 * The rules of gate.h
 */

static bool
is_any(Part part)
{
	for (int i = 0; i < N; i++)
		if (f.backends[i].part == part)
			return true;
	return false;
}

/* The first of those that wait, or -1 */
static int
first_waiter(void)
{
	int			first = -1;

	for (int i = 0; i < N; i++)
		if (f.backends[i].part == WAITS &&
			(first < 0 || f.backends[i].place < f.backends[first].place))
			first = i;
	return first;
}

/* Readers are not ahead of each other. */
static bool
is_behind_another(int i)
{
	return !shared && (is_any(HOLDS) || first_waiter() != i);
}

static void
no_node(void)
{
	f.state = ZKLOCK_GATE_EMPTY;
	f.wanted = 0;
	f.node = (Node) {0};
}

static void
drop_kept(void)
{
	if (f.state == ZKLOCK_GATE_KEPT)
		no_node();
}

static void
lose_node(void)
{
	for (int i = 0; i < N; i++)
		if (f.backends[i].part == HOLDS)
			f.backends[i].part = LOST;
	no_node();
}

/* Only the end of a session leaves a backend its place. */
static void
end_wait(int i, ZkLockVerdict verdict)
{
	Backend    *b = &f.backends[i];

	b->part = OUT;
	b->verdict = verdict;
	if (verdict != ZKLOCK_EXPIRED)
		b->place = 0;
}

static void
end_waits(ZkLockVerdict verdict)
{
	for (int i = first_waiter(); i >= 0; i = first_waiter())
		end_wait(i, verdict);
}

static void
leave(int i)
{
	f.backends[i].part = OUT;
	f.backends[i].place = 0;
}

/* It has its old place, or the last one. */
static void
take_place(int i)
{
	if (f.backends[i].place == 0)
		f.backends[i].place = N + 1;
	f.backends[i].queued = false;
}

static void
grant(int i)
{
	Backend    *b = &f.backends[i];

	b->joined = is_any(HOLDS);
	b->was_kept = f.state == ZKLOCK_GATE_KEPT;
	b->part = HOLDS;
	b->verdict = ZKLOCK_GRANTED;
	b->generation = f.node.generation;
	b->token = f.node.czxid;
	b->grant_number = shared ? 0 : f.node.next_number++;
	f.state = ZKLOCK_GATE_HELD;
}

/*
 * Who waits knows of those ahead, and is refused if it does not want to wait.  There is a
 * node for those that wait, and not without anybody.
 */
static void
conclude(void)
{
	for (int i = 0; i < N; i++)
	{
		Backend    *b = &f.backends[i];
		bool		others = f.node.queued || is_behind_another(i);

		if (b->part != WAITS)
			continue;
		b->queued |= others || f.node.yielding;
		if (others && b->nowait)
			end_wait(i, ZKLOCK_TIMED_OUT);
	}
	if (f.state == ZKLOCK_GATE_REQUESTED && !is_any(WAITS))
		no_node();
	if (f.state == ZKLOCK_GATE_EMPTY && is_any(WAITS))
	{
		f.state = ZKLOCK_GATE_REQUESTED;
		f.wanted = (int64_t) ++s.last_serial;
		f.node.revocable = f.backends[first_waiter()].revocable;
	}
}

static bool
may_hand_over(bool fit, int64_t window)
{
	return fit && !f.node.handover_forbidden && s.now - f.node.granted_at < window;
}

static bool
admits(bool fit)
{
	return f.state == ZKLOCK_GATE_EMPTY ||
		(!f.node.shut && f.node.revocable == f.backends[call.who].revocable &&
		 (f.state == ZKLOCK_GATE_REQUESTED || may_hand_over(fit, WINDOW)));
}

static bool
is_alone(void)
{
	return f.node.keepable && !f.node.rival && s.epoch != 0 &&
		f.node.alone_epoch == s.epoch && s.now - f.node.alone_at < TRUST;
}

/*
 * When the driver makes a call
 */

/* A node of a former session is not fit. */
static bool
may_be_fit(void)
{
	return call.variant % 2 == 0 || s.gate.node.generation == s.generation;
}

static bool
may_join_again(void)
{
	const Backend *b = &f.backends[call.who];

	return b->part == OUT || b->part == LOST ||
		(b->part == HOLDS && b->generation != s.generation);
}

/* Note what it requests. */
static bool
may_request(void)
{
	f.backends[call.who].revocable = call.variant >= 2;
	s.turns[call.who].revocable = call.variant >= 2;
	return may_join_again();
}

static bool
may_join(void)
{
	return may_request() &&
		(!shared || admits(s.gate.node.generation == s.generation));
}

static bool
may_be_kept(void)
{
	return may_request() && may_be_fit();
}

static bool
is_reader(void)
{
	return shared && may_be_kept();
}

static bool
is_of_readers(void)
{
	return shared;
}

static bool
has_looked(void)
{
	return f.node.look != 0;
}

/*
 * The calls, and what follows from them
 */

static void
tell(ZkLockTurn *turn, void *arg)
{
	int			i = (int) (turn - s.turns);

	if (arg != &s)
		breach("%c is told with another argument", 'A' + i);
	ntold[i]++;
	told[i] = *turn;
}

static void
answers(bool answer, bool expected)
{
	if (answer != expected)
		breach("the answer is %s", answer ? "yes" : "no");
}

/* What most functions return */
static void
changes(bool answer)
{
	answers(answer, s.gate.wanted != states[present].gate.wanted);
}

static ZkLockTurn *
turn(void)
{
	return &s.turns[call.who];
}

static ZkLockGateTerms
terms_of(bool fit)
{
	return (ZkLockGateTerms) {
		.fit = fit,.epoch = s.epoch,.now = s.now,.window = WINDOW,.trust = TRUST
	};
}

static void
play_join(void)
{
	Backend    *b = &f.backends[call.who];

	changes(zklock_gate_join(&s.gate, turn(), call.variant % 2, tell, &s));
	if (b->part == HOLDS)
		lose_node();
	drop_kept();
	take_place(call.who);
	b->part = WAITS;
	b->verdict = ZKLOCK_PENDING;
	b->nowait = call.variant % 2;
	if (shared && f.state == ZKLOCK_GATE_HELD)
		grant(call.who);
}

static void
play_admits(void)
{
	ZkLockGateTerms terms = terms_of(call.variant % 2);

	answers(zklock_gate_admits(&s.gate, turn(), &terms), admits(terms.fit));
}

static void
play_may_rejoin(void)
{
	answers(zklock_gate_may_rejoin(turn(), s.generation), may_join_again());
}

static void
play_regrant(void)
{
	ZkLockGateTerms terms = terms_of(call.variant % 2);
	bool		expected = f.state == ZKLOCK_GATE_KEPT && terms.fit &&
		f.node.kept_epoch == s.epoch &&
		f.node.revocable == f.backends[call.who].revocable &&
		(s.now - f.node.granted_at < WINDOW || is_alone());

	answers(zklock_gate_regrant(&s.gate, turn(), &terms), expected);
	if (!expected)
		return;
	take_place(call.who);
	grant(call.who);
}

static void
play_keep(void)
{
	ZkLockGateTerms terms = terms_of(call.variant % 2);
	bool		expected = f.backends[call.who].part == HOLDS && !is_any(WAITS) &&
		terms.fit && s.epoch != 0 && f.node.keepable && !f.node.rival &&
		!f.node.handover_forbidden;

	answers(zklock_gate_keep(&s.gate, turn(), &terms), expected);
	if (!expected)
		return;
	leave(call.who);
	f.state = ZKLOCK_GATE_KEPT;
	f.node.kept_epoch = s.epoch;
	f.node.kept_at = s.now;
}

static void
play_release(void)
{
	bool		fit = call.variant % 2;
	int64_t		window = call.variant >= 2 ? INT64_MAX : WINDOW;
	bool		held = f.backends[call.who].part == HOLDS;

	changes(zklock_gate_release(&s.gate, turn(), fit, s.now, window, tell, &s));
	leave(call.who);
	if (!held || is_any(HOLDS))
		return;
	if (is_any(WAITS) && may_hand_over(fit, window))
		grant(first_waiter());
	else
		no_node();
}

static void
play_forbid(void)
{
	zklock_gate_forbid_handover(&s.gate, turn());
	f.node.handover_forbidden |= f.backends[call.who].part == HOLDS;
}

static void
play_shut(void)
{
	zklock_gate_shut(&s.gate);
	f.node.shut = f.state != ZKLOCK_GATE_EMPTY;
}

/* Reports are about the wanted node, or about a former one. */
static ZkLockSerial
serial(void)
{
	return call.variant % 2 == 0 ? s.gate.wanted : s.former_serial;
}

static bool
is_awaited(void)
{
	return call.variant % 2 == 0 && f.state == ZKLOCK_GATE_REQUESTED;
}

static bool
is_granted(void)
{
	return call.variant % 2 == 0 &&
		(f.state == ZKLOCK_GATE_HELD || f.state == ZKLOCK_GATE_KEPT);
}

static void
play_granted(void)
{
	bool		keepable = call.variant >= 2;
	bool		revocable = call.variant >= 4;
	bool		again = is_granted();

	changes(zklock_gate_granted(&s.gate, serial(), s.generation, ++s.last_czxid, s.now,
								tell, &s));
	if (keepable && !again)
		zklock_gate_permit_keep(&s.gate, serial(), revocable);
	if (!is_awaited())
		return;
	f.node.generation = s.generation;
	f.node.czxid = s.last_czxid;
	f.node.granted_at = s.now;
	do
		grant(first_waiter());
	while (shared && is_any(WAITS));
	if (keepable && !shared)
	{
		f.node.keepable = true;
		f.node.revocable = revocable;
	}
}

static void
play_queued(void)
{
	changes(zklock_gate_queued(&s.gate, serial(), tell, &s));
	f.node.queued |= is_awaited();
}

static void
play_yielding(void)
{
	changes(zklock_gate_yielding(&s.gate, serial(), tell, &s));
	f.node.yielding |= is_awaited();
}

static void
play_failed(void)
{
	ZkLockVerdict verdict = call.variant == 2 ? ZKLOCK_EXPIRED : ZKLOCK_DENIED;

	changes(zklock_gate_failed(&s.gate, serial(), verdict, tell, &s));
	if (is_awaited())
		end_waits(verdict);
}

static void
play_refused(void)
{
	changes(zklock_gate_refused(&s.gate, serial(), ZKLOCK_TOO_MANY_NODES, tell, &s));
	if (!is_awaited())
		return;
	end_wait(first_waiter(), ZKLOCK_TOO_MANY_NODES);
	no_node();
}

static void
play_deleted(void)
{
	changes(zklock_gate_node_deleted(&s.gate, serial(), tell, &s));
	if (is_granted())
		lose_node();
}

static void
play_expired(void)
{
	ZkLockGeneration generation = s.generation - (uint32_t) call.variant;

	changes(zklock_gate_expired(&s.gate, generation, tell, &s));
	if (f.node.generation > generation)
		return;
	lose_node();
	end_waits(ZKLOCK_EXPIRED);
}

static void
play_rival(void)
{
	changes(zklock_gate_rival(&s.gate, serial()));
	if (!is_granted())
		return;
	f.node.rival = true;
	drop_kept();
}

static void
play_drop_kept(void)
{
	changes(zklock_gate_drop_kept(&s.gate));
	drop_kept();
}

static void
play_is_alone(void)
{
	ZkLockGateTerms terms = terms_of(false);

	answers(zklock_gate_is_alone(&s.gate, &terms), is_alone());
}

static void
play_ask_look(void)
{
	ZkLockGateTerms terms = terms_of(false);
	bool		due = f.node.alone_epoch == s.epoch ?
		s.now - f.node.alone_at >= TRUST / 2 :
		f.state == ZKLOCK_GATE_KEPT || s.now - f.node.granted_at >= WINDOW / 2;
	bool		expected = due && f.node.keepable && !f.node.rival && s.epoch != 0 &&
		f.node.look == f.node.looked;

	answers(zklock_gate_ask_look(&s.gate, &terms), expected);
	f.node.look += expected;
}

static void
play_looked(void)
{
	changes(zklock_gate_looked(&s.gate, serial(), s.gate.node.look, false, s.epoch, s.now));
	if (!is_granted())
		return;
	f.node.looked = f.node.look;
	f.node.keepable = false;
	drop_kept();
}

static void
play_alone(void)
{
	ZkLockEpoch epoch = call.variant == 4 ? 0 : call.variant == 6 ? s.last_epoch - 1 : s.epoch;
	int64_t		sent = s.now - (call.variant == 2 ? 1 : call.variant == 8 ? TRUST : 0);

	changes(zklock_gate_looked(&s.gate, serial(), s.gate.node.look, true, epoch, sent));
	if (!is_granted())
		return;
	f.node.looked = f.node.look;
	f.node.alone_epoch = epoch;
	f.node.alone_at = sent;
}

static void
play_former_look(void)
{
	changes(zklock_gate_looked(&s.gate, s.gate.wanted, s.gate.node.look - 1, call.variant,
							   s.epoch, s.now));
}

/* Something that only the driver knows changes. */
static void
play_other(void)
{
	s.now += call.variant == 0;
	s.generation += call.variant == 1;
	if (call.variant != 0)
		s.epoch = call.variant == 3 ? 0 : ++s.last_epoch;
}

/* An odd variant is without a wait, fit, or of a former serial. */
static const char *const none[] = {"", NULL};
static const char *const requests[] = {
	"", "without a wait", "revocable", "revocable, without a wait", NULL
};
static const char *const fit_requests[] = {
	"unfit", "fit", "unfit, revocable", "fit, revocable", NULL
};
static const char *const fits[] = {"unfit", "fit", NULL};
static const char *const releases[] = {
	"unfit", "fit", "unfit, in an endless window", "fit, in an endless window", NULL
};
static const char *const serials[] = {"", "of a former serial", NULL};
static const char *const grants[] = {
	"", "of a former serial", "that may be kept", "of a former serial that may be kept",
	"that may be kept, revocable", NULL
};
static const char *const failures[] = {
	"", "of a former serial", "with its session", NULL
};
static const char *const sessions[] = {"now", "before", NULL};
static const char *const lists[] = {
	"now", "of a former serial", "a while ago", "a while ago, of a former serial",
	"without an epoch", "without an epoch, of a former serial", "in a former epoch",
	"in a former epoch, of a former serial", "long ago", NULL
};
static const char *const answers_to_former[] = {"others", "it alone", NULL};
static const char *const others[] = {
	"a while passes", "the session ends", "an event is lost", "nodes are not kept", NULL
};

static const Kind kinds[] = {
	{"joins", play_join, may_join, requests, true},
	{"asks whether it is admitted", play_admits, is_reader, fit_requests, true},
	{"asks whether it may join again", play_may_rejoin, NULL, none, true},
	{"wants the node that is kept", play_regrant, may_be_kept, fit_requests, true},
	{"keeps the node", play_keep, may_be_fit, fits, true},
	{"releases", play_release, may_be_fit, releases, true},
	{"forbids the hand-over", play_forbid, NULL, none, true},
	{"shut", play_shut, is_of_readers, none, false},
	{"granted", play_granted, NULL, grants, false},
	{"queued", play_queued, NULL, serials, false},
	{"yielding", play_yielding, NULL, serials, false},
	{"failed", play_failed, NULL, failures, false},
	{"refused", play_refused, NULL, serials, false},
	{"node deleted", play_deleted, NULL, serials, false},
	{"session expired", play_expired, NULL, sessions, false},
	{"rival", play_rival, NULL, serials, false},
	{"drop the node that is kept", play_drop_kept, NULL, none, false},
	{"is it alone?", play_is_alone, NULL, none, false},
	{"is a list due?", play_ask_look, NULL, none, false},
	{"a list shows others", play_looked, has_looked, serials, false},
	{"a list shows it alone, sent", play_alone, has_looked, lists, false},
	{"a former list shows", play_former_look, has_looked, answers_to_former, false},
	{"meanwhile:", play_other, NULL, others, false}
};

/*
 * Output
 */

static void
print_call(const Call *c)
{
	printf("#   ");
	if (c->kind->by_backend)
		printf("%c ", 'A' + c->who);
	printf("%s %s\n", c->kind->name, c->kind->variants[c->variant]);
}

static void
print_state(const State *state)
{
	static const char *const names[] = {"empty", "requested", "held", "kept"};
	static const char *const parts[] = {"is out", "waits", "holds"};

	printf("#       %s", names[state->gate.state]);
	for (int i = 0; i < N; i++)
		printf(", %c %s", 'A' + i,
			   state->turns[i].lost ? "has lost it" : parts[state->turns[i].state]);
	printf("\n");
}

/* Print the calls that lead to a state. */
static void
print_path(int state)
{
	if (states[state].from >= 0)
	{
		print_path(states[state].from);
		print_call(&states[state].call);
	}
	print_state(&states[state]);
}

static void
breach(const char *fmt,...)
{
	va_list		args;

	printf("not ok %d - %s gate: ", shared + 1, shared ? "readers'" : "exclusive");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf(", after these calls:\n");
	if (present >= 0)
		print_path(present);
	if (call.kind != NULL)
	{
		print_call(&call);
		print_state(&s);
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

static void
crashed(int signal)
{
	breach("signal %d", signal);
}

/*
 * The search
 */

static void
check_facts(const Facts *facts)
{
#define COMPARE_NODE(field) \
	if (facts->node.field != f.node.field) \
		breach("the node's " #field " is %d, not %d", (int) facts->node.field, \
			   (int) f.node.field)
#define COMPARE_TURN(field) \
	if (facts->backends[i].field != f.backends[i].field) \
		breach(#field " of %c is %d, not %d", 'A' + i, (int) facts->backends[i].field, \
			   (int) f.backends[i].field)

	if (memcmp(facts, &f, sizeof(f)) == 0)
		return;
	if (facts->state != f.state || facts->wanted != f.wanted)
		breach("the state is %d, and serial %d is wanted, not %d and %d", (int) facts->state,
			   (int) facts->wanted, (int) f.state, (int) f.wanted);
	NODE_FIELDS(COMPARE_NODE);
	for (int i = 0; i < N; i++)
	{
		TURN_FIELDS(COMPARE_TURN);
		COMPARE_TURN(part);
		COMPARE_TURN(place);
	}
}

static bool
is_alike(const ZkLockTurn *a, const ZkLockTurn *b)
{
	return a->state == b->state && a->verdict == b->verdict && a->queued == b->queued &&
		a->lost == b->lost;
}

/* Was each backend told, once, what has changed for it?  The caller of a function is not. */
static void
check_told(void)
{
	for (int i = 0; i < N; i++)
	{
		bool		changed = !is_alike(&s.turns[i], &states[present].turns[i]);

		if (ntold[i] != (changed && !(call.kind->by_backend && call.who == i)))
			breach("%c is told %d times", 'A' + i, ntold[i]);
		if (ntold[i] > 0 && !is_alike(&s.turns[i], &told[i]))
			breach("%c is told before its change is complete", 'A' + i);
	}
}

/* What states differ in.  Of the numbers of grants, that a node has had more than one. */
static void
write_key(const Facts *facts, unsigned char *key)
{
	const Node *node = &facts->node;
	int			n = 0;

	memset(key, 0, KEY_SIZE);
	key[n++] = (unsigned char) (facts->state << 1 | (s.epoch != 0));
	key[n++] = (unsigned char) (node->queued | node->yielding << 1 | node->revocable << 2 |
								node->shut << 3 | node->handover_forbidden << 4 |
								node->keepable << 5 | node->rival << 6);
	if (node->generation != 0)
	{
		key[n++] = node->generation == s.generation;
		key[n++] = (unsigned char) Min(s.now - node->granted_at, WINDOW);
		key[n++] = (unsigned char) Min(node->next_number, 2);
		key[n++] = facts->state == ZKLOCK_GATE_KEPT && node->kept_epoch == s.epoch;
		key[n++] = node->keepable && node->look != node->looked;
		if (node->keepable && s.epoch != 0 && node->alone_epoch == s.epoch)
			key[n++] = (unsigned char) (1 + Min(s.now - node->alone_at, TRUST));
	}

	/* The backends, sorted, at the end */
	n = KEY_SIZE - N;
	for (int i = 0; i < N; i++)
	{
		const Backend *b = &facts->backends[i];
		unsigned char backend = (unsigned char) (b->part << 6 | b->place << 3 | b->nowait << 2);
		int			k = n + i;

		if (b->part == WAITS)
			backend |= (unsigned char) (b->queued << 1 | b->revocable);
		for (; k > n && key[k - 1] > backend; k--)
			key[k] = key[k - 1];
		key[k] = backend;
	}
}

/* Find this state, or add it.  Returns its index. */
static int
enter(const Facts *facts)
{
	unsigned char key[KEY_SIZE];
	uint32_t	hash = 2166136261;

	write_key(facts, key);
	for (int i = 0; i < KEY_SIZE; i++)
		hash = (hash ^ key[i]) * 16777619;
	for (hash %= TABLE_SIZE; table[hash] != 0; hash = (hash + 1) % TABLE_SIZE)
		if (memcmp(keys[table[hash] - 1], key, KEY_SIZE) == 0)
			return table[hash] - 1;
	if (nstates == MAX_STATES)
		breach("there are more than %d states", MAX_STATES);
	memcpy(keys[nstates], key, KEY_SIZE);
	s.from = present;
	s.call = call;
	states[nstates] = s;
	table[hash] = nstates + 1;
	return nstates++;
}

/*
 * Is this the call by which a gate comes to rest?  Who has the lock, or has lost it,
 * releases it, then the next one is granted it, and at last nobody keeps the node.
 */
static bool
is_to_rest(void)
{
	if (call.variant != 0)
		return false;
	for (int i = 0; i < N; i++)
		if (before.backends[i].part == HOLDS || before.backends[i].part == LOST)
			return call.kind->play == play_release && call.who == i;
	return call.kind->play == (before.state == ZKLOCK_GATE_REQUESTED ? play_granted :
							   play_drop_kept);
}

static void
play_call(void)
{
	Facts		facts;
	int			to;

	s = states[present];
	f = before;
	memset(ntold, 0, sizeof(ntold));
	if (call.kind->may_play != NULL && !call.kind->may_play())
		return;
	call.kind->play();
	ncalls++;
	if (s.gate.wanted != states[present].gate.wanted && before.wanted != 0)
		s.former_serial = states[present].gate.wanted;
	conclude();
	tidy(&f);
	observe(&facts);
	check_facts(&facts);
	check_told();
	if (!zklock_gate_is_sound(&s.gate))
		breach("it is not sound");
	to = enter(&facts);
	if (is_to_rest())
		states[present].to_rest = to;
}

static void
play_all(void)
{
	s = states[present];
	observe(&before);
	for (int k = 0; k < ELEMENTS(kinds); k++)
		for (int i = 0; i < (kinds[k].by_backend ? N : 1); i++)
			for (int v = 0; kinds[k].variants[v] != NULL; v++)
			{
				call = (Call) {&kinds[k], i, v};
				play_call();
			}
	call.kind = NULL;
}

/* Does each state come to rest? */
static void
check_rest(void)
{
	for (present = 0; present < nstates; present++)
	{
		int			state = present;

		for (int n = 0; n < 4 * N; n++)
			state = states[state].to_rest;
		if (states[state].to_rest != state || states[state].gate.state != ZKLOCK_GATE_EMPTY)
			breach("it does not come to rest");
	}
}

static void
search(void)
{
	nstates = 0;
	ncalls = 0;
	memset(table, 0, sizeof(*table) * TABLE_SIZE);
	memset(&s, 0, sizeof(s));
	memset(&s.gate, 0xff, sizeof(s.gate));
	zklock_gate_init(&s.gate, shared, FORMER_SERIAL);
	s.former_serial = s.last_serial = FORMER_SERIAL;
	s.now = 1000;
	s.generation = 2;
	s.epoch = s.last_epoch = 2;
	observe(&before);
	present = -1;
	(void) enter(&before);
	for (present = 0; present < nstates; present++)
		play_all();
	check_rest();
	printf("ok %d - %s gate: %d states, %ld calls\n", ++nplayed,
		   shared ? "readers'" : "exclusive", nstates, ncalls);
}

int
main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;

	states = malloc(sizeof(*states) * MAX_STATES);
	keys = malloc(sizeof(*keys) * MAX_STATES);
	table = malloc(sizeof(*table) * TABLE_SIZE);
	if (states == NULL || keys == NULL || table == NULL)
		return 2;
	signal(SIGSEGV, crashed);
	printf("1..%d\n", only == NULL ? 2 : 1);
	if (only == NULL || strcmp(only, "exclusive") == 0)
		search();
	shared = true;
	if (only == NULL || strcmp(only, "readers") == 0)
		search();
	return 0;
}
