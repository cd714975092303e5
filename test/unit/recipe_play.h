/*-------------------------------------------------------------------------
 *
 * recipe_play.h
 *	  Plays a driver and an ensemble for the lock recipe, event by event.
 *
 * A test feeds one event and compares the recipe's requests, as text, with the
 * expected ones.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RECIPE_PLAY_H
#define RECIPE_PLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "protocol/recipe.h"

#define FROM_TOKEN 55			/* of the lock that is downgraded */
#define SESSION INT64_C(0x100000000000007)
#define PREFIX "_c_01234567-89ab-4cde-8f01-23456789abcd-"
#define OURS(rest) PREFIX rest
#define CURATOR(rest) "_c_fedcba98-7654-4321-8fed-cba987654321-" rest
#define KEPT "_c_fedcba98-7654-8321-8fed-cba987654321-lock-0000000003"
#define KAZOO(rest) "0123456789abcdef0123456789abcdef" rest
#define GO(rest) "_c_0123456789abcdef0123456789abcdef-" rest

extern ZkLockRecipe recipe;
extern ZkLockActions actions;

/* The latest request of each kind. */
extern uint32_t asked[ZKLOCK_DO_FAIL + 1];

/* The last requests of the recipe, e.g. "CREATE LIST". */
extern const char *said(void);

extern void begin_with(ZkLockMode mode, bool nowait);
extern void begin(ZkLockMode mode);
extern void begin_simple(void);
extern void begin_downgrade(const char *from, const char *what);
extern void begin_lease(int leases, bool nowait);
extern void begin_counted(bool nowait);
extern void begin_look(ZkLockMode mode, int leases, bool wants_holder, const char *what);

/* Events, each of the latest request of its kind. */
extern void feed(const ZkLockEvent *ev);
extern void happen(ZkLockEventKind kind);
extern void reply(ZkLockEventKind kind, ZkLockActionKind to, ZkLockReply how);
extern void created(const char *name, int64_t czxid);
extern void sized(int size);
extern void verified(int64_t owner, int64_t czxid);
extern void looked(const char *name, int64_t owner, bool has_prefix,
				   int version);
extern void list_request(uint32_t request, const char *const *children);
extern void watch(ZkLockEventKind kind, ZkLockReply how, const char *name);

#define listed(...) \
	list_request(asked[ZKLOCK_DO_LIST], \
				 (const char *const[]) {__VA_ARGS__, NULL})

#define gone(name) watch(ZKLOCK_EV_DELETED, ZKLOCK_OK, name)

extern void expect(const char *what);
extern void expect_granted(const char *name, int64_t seq, ZkLockToken token);
extern void expect_failed(ZkLockVerdict verdict);

/* Three nodes ahead of us: we watch number 3 and, as look-ahead, number 2. */
#define H CURATOR("lock-0000000001")
#define A GO("lock-0000000002")
#define B KAZOO("__lock__0000000003")
#define ME OURS("lock-0000000005")

extern void queue_behind_three(void);

#endif							/* RECIPE_PLAY_H */
