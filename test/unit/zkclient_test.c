/*-------------------------------------------------------------------------
 *
 * zkclient_test.c
 *	  The client, with a library whose answers come when the test wants them.
 *
 * Who is not told that something has happened, or only at the next event, is seen here:
 * each test looks whether the caller's eventfd was written to.  The functions of the library
 * that make requests are replaced, and note them.  The session is not opened.
 *
 *-------------------------------------------------------------------------
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/zkcore.h"
#include "client/zknode.h"
#include "client/zkrequest.h"
#include "protocol/path.h"

#define DIR "/d"
#define PATH DIR "/p-0000000001"
#define DATA "host=h revocable=t"
#define SIZE (4 + sizeof(PATH) - 1 + 1) /* of a node: ZooKeeper may append 11
										 * digits */

typedef enum Op
{
	NONE,
	CREATE,
	DELETE,
	WATCH,
	LIST,
	UNWATCH
} Op;

typedef struct Call
{
	Op			op;
	const void *done;			/* the callback */
	const void *data;
} Call;

static ZkLockClient *client;
static Call calls[10];			/* that are not answered */
static int	ncalls;
static Op	refused;			/* the next call of this kind, with this code */
static int	refusal;
static void (*during_call) (void);

static int
call(Op op, const void *done, const void *data)
{
	void		(*hook) (void) = during_call;

	during_call = NULL;
	if (hook != NULL)
		hook();
	if (op == refused)
	{
		refused = NONE;
		return refusal;
	}
	assert_true(ncalls < 10);
	calls[ncalls++] = (Call) {.op = op,.done = done,.data = data};
	return ZOK;
}

/* Parameters are those of the library. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

int
zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int valuelen,
			 const struct ACL_vector *acl, int mode, string_stat_completion_t completion,
			 const void *data)
{
	return call(CREATE, completion, data);
}

int
zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion,
			const void *data)
{
	return call(DELETE, completion, data);
}

int
zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
		  data_completion_t completion, const void *data)
{
	return call(WATCH, completion, data);
}

int
zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
				   strings_completion_t completion, const void *data)
{
	return call(LIST, completion, data);
}

int
zoo_aremove_all_watches(zhandle_t *zh, const char *path, ZooWatcherType wtype, int local,
						void_completion_t *completion, const void *data)
{
	return call(UNWATCH, (const void *) completion, data);
}

const clientid_t *
zoo_client_id(zhandle_t *zh)
{
	static const clientid_t id = {.client_id = 1};

	return &id;
}

/* The answer to the oldest call, which is one of this kind */
static Call
take(Op op)
{
	Call		first = calls[0];

	assert_true(ncalls > 0);
	assert_int_equal(first.op, op);
	memmove(calls, calls + 1, --ncalls * sizeof(Call));
	return first;
}

static void
answer(Op op, int rc)
{
	struct Stat stat = {.ephemeralOwner = 1};
	Call		first = take(op);

	if (op == CREATE)
		((string_stat_completion_t) first.done) (rc, PATH, &stat, first.data);
	else if (op == WATCH)
		((data_completion_t) first.done) (rc, DATA, sizeof(DATA) - 1, &stat, first.data);
	else if (op == LIST)
		((strings_completion_t) first.done) (rc, &(struct String_vector) {0}, first.data);
	else
		((void_completion_t) first.done) (rc, first.data);
}

/* Was the caller woken?  It then receives its messages. */
static bool
is_woken(void)
{
	ZkLockClientStatus status;
	ZkLockMessage *message;
	uint64_t	n;
	bool		woken = read(client->wake_fd, &n, sizeof(n)) == sizeof(n);

	message = zklock_zkclient_receive(client, &status);
	while (message != NULL)
	{
		ZkLockMessage *next = message->next;

		zklock_zkclient_free(message);
		message = next;
	}
	return woken;
}

static int
setup(void **state)
{
	(void) state;
	client = calloc(1, sizeof(ZkLockClient));
	pthread_mutex_init(&client->mutex, NULL);
	pthread_cond_init(&client->changed_cond, NULL);
	zklock_list_init(&client->requests);
	zklock_list_init(&client->unwanted);
	zklock_list_init(&client->pending_deletes);
	for (int i = 0; i < ZKLOCK_N_NODE_LISTS; i++)
		zklock_list_init(&client->nodes[i]);
	client->caller = gettid();
	client->wake_fd = eventfd(0, EFD_NONBLOCK);
	client->opened = true;
	client->status.connects = 1;
	client->status.state = ZKLOCK_CLIENT_CONNECTED;
	client->status.timeout = 10000;
	ncalls = 0;
	refused = NONE;
	return 0;
}

static int
teardown(void **state)
{
	(void) state;
	(void) is_woken();
	zklock_zkrequest_free_all(client);
	zklock_zknode_free_all(client);
	close(client->wake_fd);
	free(client);
	return 0;
}

static void
refuse(Op op, int rc)
{
	refused = op;
	refusal = rc;
}

/* A node that was created */
static ZkLockNode *
make_node(void)
{
	ZkLockNode *node = zklock_zkclient_node(client, 0, DIR, "p", "-");

	assert_non_null(node);
	assert_true(zklock_zkclient_create(client, node, DATA, (ZkLockTag) {1, 1}));
	answer(CREATE, ZOK);
	assert_true(is_woken());
	return node;
}

static ZkLockRoom
room(void)
{
	return zklock_zkclient_room(client, SIZE * 3 / 2, ZKLOCK_NODE_RECORD, 0, sizeof(PATH) - 1);
}

/* The answer to a create wakes the caller, unless that to a list follows. */
static void
test_followed(void **state)
{
	(void) state;
	for (int listed = 0; listed < 2; listed++)
	{
		ZkLockNode *node = zklock_zkclient_node(client, 0, DIR, "p", "-");

		assert_true(zklock_zkclient_create(client, node, DATA, (ZkLockTag) {1, 1}));
		if (!listed)
			refuse(LIST, ZMARSHALLINGERROR);
		assert_true(zklock_zkclient_list(client, DIR, ZKLOCK_CHILDREN_ALL, ZKLOCK_WATCH_NONE,
										 (ZkLockTag) {1, 2}));
		assert_int_equal(is_woken(), !listed);
		answer(CREATE, ZOK);
		assert_int_equal(is_woken(), !listed);
		if (listed)
		{
			answer(LIST, ZOK);
			assert_true(is_woken());
		}
	}
}

/* A long list may begin when no other is under way, however that has ended. */
static void
test_long_lists(void **state)
{
	const int	ends[] = {ZOK, ZCONNECTIONLOSS, ZNONODE};

	(void) state;
	for (int i = 0; i < 3; i++)
	{
		uint32_t	hash = zklock_path_hash(DIR);

		zklock_longlist_note(&client->long_lists, hash, ZKLOCK_LONGLIST_BYTES + 1);
		assert_true(zklock_zkclient_may_list(client, DIR));
		for (int n = 0; n < 2; n++)
			assert_true(zklock_zkclient_list(client, n == 0 ? DIR : DIR "/short",
											 ZKLOCK_CHILDREN_ALL, ZKLOCK_WATCH_NONE,
											 (ZkLockTag) {1, 1 + n}));
		assert_false(zklock_zkclient_may_list(client, DIR));
		assert_true(zklock_zkclient_may_list(client, DIR "/short"));
		answer(LIST, ends[i]);
		assert_true(zklock_zkclient_may_list(client, DIR));
		assert_int_equal(zklock_longlist_is_noted(&client->long_lists, hash), ends[i] != ZOK);
		answer(LIST, ZOK);
	}
	refuse(LIST, ZMARSHALLINGERROR);
	assert_true(zklock_zkclient_list(client, DIR, ZKLOCK_CHILDREN_ALL, ZKLOCK_WATCH_NONE,
									 (ZkLockTag) {1, 3}));
	assert_true(zklock_zkclient_may_list(client, DIR));
}

/* Who waits for room is woken when a node is gone, and when it stays. */
static void
test_room(void **state)
{
	(void) state;
	zklock_zkclient_delete(make_node());
	assert_int_equal(room(), ZKLOCK_ROOM_LATER);
	assert_false(is_woken());
	answer(DELETE, ZOK);
	assert_true(is_woken());
	assert_int_equal(room(), ZKLOCK_ROOM);

	zklock_zkclient_delete(make_node());
	assert_int_equal(room(), ZKLOCK_ROOM_LATER);
	answer(DELETE, ZNOAUTH);
	assert_true(is_woken());
	assert_int_equal(room(), ZKLOCK_ROOM_NONE);
	assert_int_equal(client->status.rooms, 2);
}

/* A deletion that lacks memory is sent again. */
static void
test_postponed_deletion(void **state)
{
	(void) state;
	refuse(DELETE, ZMARSHALLINGERROR);
	zklock_zkclient_delete(make_node());
	assert_int_equal(ncalls, 0);
	(void) is_woken();
	answer(DELETE, ZOK);
	assert_int_equal(zklock_zkclient_undeleted(client), 0);
}

static void
watch(void)
{
	assert_true(zklock_zkclient_get(client, PATH, ZKLOCK_WATCH_WAITER, (ZkLockTag) {1, 3}));
}

/* A removal may remove a watch that is requested while it is sent. */
static void
test_overtaken(void **state)
{
	(void) state;
	watch();
	answer(WATCH, ZOK);
	assert_true(is_woken());
	during_call = watch;
	zklock_zkclient_unwatch(client, PATH, false);
	assert_true(is_woken());
	assert_int_equal(client->status.connects, 2);
	answer(WATCH, ZOK);
	answer(UNWATCH, ZOK);
	(void) is_woken();

	/* Not if it is requested after that. */
	for (int i = 0; i < 2; i++)
	{
		watch();
		zklock_zkclient_unwatch(client, PATH, false);
	}
	assert_false(is_woken());
	for (Op op = WATCH; ncalls > 0; op = op == WATCH ? UNWATCH : WATCH)
		answer(op, ZOK);
	assert_int_equal(client->status.connects, 2);
}

/* A watch for revocation that lacks memory, at once, halfway or for the answer, is set later. */
static void
test_unwatched(void **state)
{
	static const int codes[] = {ZSYSTEMERROR, ZMARSHALLINGERROR, ZOK};

	(void) state;
	for (int i = 0; i < 3; i++)
	{
		ZkLockNode *node = make_node();

		assert_true(zklock_zkclient_reserve_watch(node));
		if (codes[i] != ZOK)
			refuse(WATCH, codes[i]);
		zklock_zkclient_watch_revocation(node, DATA);
		if (codes[i] == ZOK)
			answer(WATCH, ZSYSTEMERROR);
		assert_int_equal(ncalls, 0);
		(void) is_woken();
		answer(WATCH, ZOK);
		(void) is_woken();
		assert_int_equal(ncalls, 0);

		/*
		 * Also if its callback may still run, the node is gone when it is
		 * deleted.
		 */
		zklock_zkclient_delete(node);
		assert_int_equal(room(), ZKLOCK_ROOM_LATER);
		(void) is_woken();
		answer(DELETE, ZOK);
		assert_true(is_woken());
		assert_int_equal(room(), ZKLOCK_ROOM);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_lists, setup, teardown),
		cmocka_unit_test_setup_teardown(test_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_postponed_deletion, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overtaken, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unwatched, setup, teardown)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
