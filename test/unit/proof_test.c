/*-------------------------------------------------------------------------
 *
 * proof_test.c
 *	  What proves that a session lives, and how old a proof becomes.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "protocol/proof.h"

/* A timeout of which all parts are whole numbers */
#define PART INT64_C(1000000)
#define T (48 * PART)
#define BEGIN (1000 * T)
#define DISTANCE (T * 7 / 24)

static ZkLockProof proof;

static int
setup(void **state)
{
	(void) state;
	memset(&proof, 0, sizeof(proof));
	zklock_proof_connected(&proof, BEGIN);
	return 0;
}

/* What was sent then is answered that much later.  Returns what is confirmed after that. */
static int64_t
write_at(int64_t sent, int64_t answer)
{
	int64_t		before = proof.confirmed;
	bool		changed = zklock_proof_answered(&proof, T, sent, sent + answer);

	assert_int_equal(changed, proof.confirmed != before);
	return proof.confirmed;
}

static void
test_new_session(void **state)
{
	ZkLockProof resumed = {0};

	(void) state;
	assert_int_equal(proof.confirmed, BEGIN);
	zklock_proof_connected(&resumed, 0);
	assert_int_equal(resumed.confirmed, 0);
}

/* The second write is sent long enough after the answer to the first one. */
static void
test_pair(void **state)
{
	int64_t		first = BEGIN + T;

	(void) state;
	assert_int_equal(write_at(first, PART), BEGIN);
	assert_int_equal(write_at(first + PART + DISTANCE - 1, PART), BEGIN);
	assert_int_equal(write_at(first + PART + DISTANCE, PART), first);
}

/* The distance is that of a follower's answers to pings, and the way. */
static void
test_distance(void **state)
{
	(void) state;
	assert_true(DISTANCE >= T / 4 + T / 24);
	for (int64_t distance = 0; distance < T / 4 + T / 24; distance += PART / 2)
	{
		(void) setup(NULL);
		(void) write_at(BEGIN + T, 0);
		assert_int_equal(write_at(BEGIN + T + distance, 0), BEGIN);
	}
}

/* The first write may have waited for its answer, and the follower have heard it late. */
static void
test_from_answer(void **state)
{
	int64_t		first = BEGIN + T;

	(void) state;
	(void) write_at(first, T / 2);
	assert_int_equal(write_at(first + T / 2 + DISTANCE - 1, 0), BEGIN);
	assert_int_equal(write_at(first + T / 2 + DISTANCE, 0), first);
}

static void
test_late_answer(void **state)
{
	int64_t		first = BEGIN + T;

	(void) state;
	(void) write_at(first, 0);
	assert_int_equal(write_at(first + T / 2, T / 6), first);
	(void) setup(NULL);
	(void) write_at(first, 0);
	assert_int_equal(write_at(first + T / 2, T / 6 + 1), BEGIN);
}

/* What was sent shortly before a leader continues is answered at once, but behind others. */
static void
test_behind_late_answer(void **state)
{
	int64_t		first = BEGIN + T;
	int64_t		continues = first + T * 3 / 4;

	(void) state;
	(void) write_at(first, 0);
	for (int64_t sent = first + T / 6; sent < continues; sent += T / 6)
		assert_int_equal(write_at(sent, continues - sent), BEGIN);
	assert_int_equal(write_at(continues, 0), BEGIN);
	assert_int_equal(write_at(continues + DISTANCE, 0), continues);
}

/* It proves nothing, but another one can prove it. */
static void
test_late_mark(void **state)
{
	int64_t		first = BEGIN + T;

	(void) state;
	(void) write_at(first, T);
	assert_int_equal(write_at(first + T + DISTANCE, 0), first);
}

static void
test_newest_mark(void **state)
{
	int64_t		first = BEGIN + T;

	(void) state;
	(void) write_at(first, 0);
	(void) write_at(first + T / 8, 0);
	(void) write_at(first + T / 4, 0);
	assert_int_equal(write_at(first + T / 8 + DISTANCE, 0), first + T / 8);
	assert_int_equal(write_at(first + T / 4 + DISTANCE, 0), first + T / 4);
}

/* To connect is no mark, but what was written before needs no distance. */
static void
test_next_connection(void **state)
{
	int64_t		first = BEGIN + T;

	(void) state;
	(void) write_at(first, 0);
	(void) write_at(first + T / 24, 0);
	zklock_proof_connected(&proof, 0);
	assert_int_equal(proof.confirmed, BEGIN);
	assert_int_equal(write_at(first + T / 8, 0), first + T / 24);

	/* Those of this connection need one. */
	assert_int_equal(write_at(first + T / 6, 0), first + T / 24);
	assert_int_equal(write_at(first + T / 8 + DISTANCE, 0), first + T / 8);
}

/* An answer to an old request does not make it older. */
static void
test_never_older(void **state)
{
	(void) state;
	(void) write_at(BEGIN + T, 0);
	(void) write_at(BEGIN + 2 * T, 0);
	assert_int_equal(proof.confirmed, BEGIN + T);
	(void) write_at(BEGIN + T / 2, 0);
	(void) write_at(BEGIN + T / 2, 0);
	assert_int_equal(proof.confirmed, BEGIN + T);
}

/* However many writes there are, there are old enough marks. */
static void
test_many_writes(void **state)
{
	int64_t		oldest = 0;

	(void) state;
	for (int64_t sent = BEGIN; sent < BEGIN + 10 * T; sent += PART / 100)
	{
		int64_t		confirmed = write_at(sent, PART);

		if (sent > BEGIN + T && sent - confirmed > oldest)
			oldest = sent - confirmed;
	}
	assert_true(oldest <= DISTANCE + PART + T / 48 + PART / 100);
}

/*
 * How old the proof becomes if nothing is written but beats.  Bits tell which of them are
 * answered late.
 */
#define N_BEATS 10

static int64_t
oldest_proof(uint32_t slow, int64_t answer)
{
	int64_t		oldest = 0;
	int64_t		sent = BEGIN;

	(void) setup(NULL);
	for (int i = 0; i < N_BEATS; i++)
	{
		int64_t		takes = slow >> i & 1 ? answer : 0;
		int64_t		age;

		sent += zklock_proof_beat(T);
		age = sent + takes - proof.confirmed;
		if (age > oldest)
			oldest = age;
		(void) write_at(sent, takes);
	}
	return oldest;
}

/* A commit need not wait. */
static void
test_beats(void **state)
{
	int64_t		oldest = 0;

	(void) state;
	for (uint32_t slow = 0; slow < 1U << N_BEATS; slow++)
	{
		int64_t		age = oldest_proof(slow, T / 24);

		if (age > oldest)
			oldest = age;
	}
	assert_int_equal(oldest, T / 2 + T / 24);
	assert_true(oldest <= zklock_proof_lease(T));
}

/* There is time for two writes that prove each other, each between two beats. */
static void
test_patience(void **state)
{
	(void) state;
	assert_true(zklock_proof_patience(T) >= T / 6 + DISTANCE + T / 6);
	assert_true(zklock_proof_lease(T) <= T * 2 / 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_new_session, setup),
		cmocka_unit_test_setup(test_pair, setup),
		cmocka_unit_test_setup(test_distance, setup),
		cmocka_unit_test_setup(test_from_answer, setup),
		cmocka_unit_test_setup(test_late_answer, setup),
		cmocka_unit_test_setup(test_behind_late_answer, setup),
		cmocka_unit_test_setup(test_late_mark, setup),
		cmocka_unit_test_setup(test_newest_mark, setup),
		cmocka_unit_test_setup(test_next_connection, setup),
		cmocka_unit_test_setup(test_never_older, setup),
		cmocka_unit_test_setup(test_many_writes, setup),
		cmocka_unit_test(test_beats),
		cmocka_unit_test(test_patience)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
