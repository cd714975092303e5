/*-------------------------------------------------------------------------
 *
 * workerattempts.c
 *	  Runs the attempts of backends in the worker.  See workerattempts.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "common/clock.h"
#include "common/guc.h"
#include "common/hashfn.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "protocol/proof.h"
#include "session/driver.h"
#include "session/session.h"
#include "shared/sessionstate.h"
#include "shared/slots.h"
#include "storage/latch.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "worker/keeper.h"
#include "worker/workerattempts.h"

/*
 * Maximum number of creates, of nodes and of their parents, and looks under way, for all
 * backends together.  ZooKeeper answers in order, so the next create, and what confirms the
 * session, waits for no more than these, and those of one path.
 */
#ifndef ZKLOCK_MAX_CREATING		/* a simulation has few attempts */
#define ZKLOCK_MAX_CREATING 256
#endif

/* Number of slots that are processed before the next messages are read */
#define MAX_PROCESSED 256

/*
 * How often the worker looks for room for nodes in the session, if there is none, in ms.
 * Each time it looks at all nodes.
 */
#define SHORT_MS 20

/* A path that an attempt watches */
typedef struct Watch
{
	dlist_node	link;			/* in its bucket of `watches`, if `valid` */
	struct WorkerAttempt *attempt;
	uint32		hash;
	bool		valid;
} Watch;

typedef struct WorkerAttempt
{
	ZkLockSlot *slot;			/* dynahash: must be first */
	ZkLockSerial serial;		/* of the attempt, see slots.h */
	ZkLockGeneration generation;	/* in which it was requested */
	MemoryContext context;		/* of the attempt */
	ZkLockDriver driver;
	ZkLockReceiver replies;		/* to the driver's requests */
	ZkLockReceiver answers;		/* to the backend's question; registered while
								 * it is under way */
	ZkLockReceiver looks;		/* answers to the keeper's lists */
	dlist_node	link;			/* in `pending` or `settled` */
	uint32		question;		/* number of the backend's confirmation under
								 * way; 0: none */
	ZkLockToken deleted_token;	/* token of a node of it that was deleted by
								 * hand; 0: none */
	Watch		watch[ZKLOCK_DRIVER_WATCHES];
	int			creating;		/* number of creates counted in `creating` */
	bool		wants_parents;	/* see zklock_driver_wants_parents() */
	bool		postponed;		/* process the slot again when it is not
								 * creating */
	uint64		event;			/* number of the last event that it has
								 * processed */
	bool		marked;			/* see zklock_keeper_may_keep() */
	bool		of_worker;		/* it is for the worker itself */
	ZkLockKeeper keeper;

	/* the values that were reported last */
	ZkLockOutcome reported;
	const char *nearest_data;
	uint32		revocations;
} WorkerAttempt;

static HTAB *attempts = NULL;

/* Attempts without and with a verdict */
static dlist_head pending = DLIST_STATIC_INIT(pending);
static dlist_head settled = DLIST_STATIC_INIT(settled);

/* All watches, by the hash of their path.  `nbuckets` is a power of two. */
static dlist_head *watches = NULL;
static uint32 nbuckets;

static int	creating = 0;

/* Number of attempts for the worker itself */
static int	nof_worker = 0;

/*
 * Does any slot wait for the next step of the pace?  The time of the last one, by which
 * attempts know their role's pace.  It moves in steps, so that a role that may create no more
 * has to wait until the next one, when those that have waited longest are first.  So does who
 * must wait for a long list, which leaves time for others' requests between two of them.
 */
static bool any_paced = false;
static int64 pace_time = 0;

static ZkLockReceiver events;
static void process_event(const ZkLockMessage *message, void *owner);

/*
 * Have messages been left out that may be outdated?  They show what has been confirmed, and
 * nothing else.
 */
static bool left_out = false;

/*
 * The number of connections that all attempts know of.  Has any attempt lost a
 * reply?
 */
static uint32 connects_seen = 0;
static bool any_reply_lost = false;

/*
 * The slots whose requests were left because there is no room in the session for their
 * nodes yet, and their number, which may be larger.  Is it worth another look, although
 * nothing has happened?  The status's `rooms` when the first was left.
 */
static ZkLockSlot *short_slots[4096];
static int	nshort = 0;
static bool look_again = false;
static uint32 rooms_seen = 0;

/*
 * The receiver of the answer to the worker's own check of an attempt's node, while one is
 * under way, and the time of the last check, or message for attempts.  While there are
 * messages, there is no check.
 */
static ZkLockReceiver check;
static int64 checked_at = 0;

void
zklock_workerattempts_init(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(ZkLockSlot *);
	ctl.entrysize = sizeof(WorkerAttempt);
	attempts = hash_create("zklock attempts", 256, &ctl, HASH_ELEM | HASH_BLOBS);

	nbuckets = pg_nextpower2_32(zklock_guc_max_locks);
	watches = MemoryContextAlloc(TopMemoryContext,
								 nbuckets * sizeof(dlist_head));
	for (uint32 i = 0; i < nbuckets; i++)
		dlist_init(&watches[i]);
	zklock_keeper_init();
	zklock_session_register(&events, 0, process_event, NULL, &left_out);
}

static uint32
hash_path(const char *path)
{
	return hash_bytes((const unsigned char *) path, (int) strlen(path));
}

static dlist_head *
bucket_of(uint32 hash)
{
	return &watches[hash & (nbuckets - 1)];
}

static bool
is_watch_of(const Watch *watch, uint32 hash, const char *path)
{
	return watch->hash == hash &&
		zklock_driver_is_watching(&watch->attempt->driver, path);
}

/* Does any attempt need the watch on this node, except the one with this driver? */
static bool
is_watched(const ZkLockDriver *driver, const char *path)
{
	uint32		hash = hash_path(path);
	dlist_iter	iter;

	dlist_foreach(iter, bucket_of(hash))
	{
		const Watch *watch = dlist_container(Watch, link, iter.cur);

		if (&watch->attempt->driver != driver && is_watch_of(watch, hash, path))
			return true;
	}
	return false;
}

static void
forget_watch(Watch *watch)
{
	if (watch->valid)
		dlist_delete(&watch->link);
	watch->valid = false;
}

static void
forget_watches(WorkerAttempt *attempt)
{
	for (int i = 0; i < ZKLOCK_DRIVER_WATCHES; i++)
		forget_watch(&attempt->watch[i]);
}

/* Update the paths by which the attempt is found. */
static void
update_watches(WorkerAttempt *attempt)
{
	for (int i = 0; i < ZKLOCK_DRIVER_WATCHES; i++)
	{
		Watch	   *watch = &attempt->watch[i];
		char		path[ZKLOCK_DRIVER_PATH];
		uint32		hash;

		if (!zklock_driver_watched(&attempt->driver, i, path))
		{
			forget_watch(watch);
			continue;
		}
		hash = hash_path(path);
		if (watch->valid && watch->hash == hash)
			continue;
		forget_watch(watch);
		watch->attempt = attempt;
		watch->hash = hash;
		watch->valid = true;
		dlist_push_tail(bucket_of(hash), &watch->link);
	}
}

/* Count the creates of the attempt that are under way. */
static void
set_creating(WorkerAttempt *attempt, int n)
{
	creating += n - attempt->creating;
	attempt->creating = n;
	Assert(creating >= 0);
	if (n == 0 && attempt->postponed)
	{
		attempt->postponed = false;
		zklock_slots_post(attempt->slot);
	}
}

/* Parents are created in the turn of the attempt's owner.  The first try is at once. */
static void
set_wants_parents(WorkerAttempt *attempt, bool wants)
{
	if (attempt->wants_parents == wants)
		return;
	attempt->wants_parents = wants;
	if (wants)
		zklock_slots_post(attempt->slot);
}

static void
unregister(WorkerAttempt *attempt)
{
	zklock_session_unregister(&attempt->replies);
	zklock_session_unregister(&attempt->answers);
	zklock_session_unregister(&attempt->looks);
	if (check.owner == attempt)
		zklock_session_unregister(&check);
}

static void
remove_attempt(WorkerAttempt *attempt)
{
	MemoryContext context = attempt->context;

	dlist_delete(&attempt->link);
	nof_worker -= attempt->of_worker;
	forget_watches(attempt);
	set_creating(attempt, 0);
	if (attempt->slot->gate)
		zklock_keeper_ended(&attempt->keeper, &attempt->driver);
	zklock_driver_abandon(&attempt->driver);
	unregister(attempt);
	(void) hash_search(attempts, &attempt->slot, HASH_REMOVE, NULL);
	MemoryContextDelete(context);
}

static void
note_node_deleted(WorkerAttempt *attempt)
{
	attempt->deleted_token = attempt->driver.recipe.outcome.token;
}

/*
 * Was the present node deleted by hand?  A recipe that creates another node has
 * another token, and none meanwhile.
 */
static bool
is_node_deleted(const WorkerAttempt *attempt)
{
	return attempt->deleted_token != 0 &&
		attempt->deleted_token == attempt->driver.recipe.outcome.token;
}

/* Report the attempt's state to the slot, if it has changed. */
static void
report(WorkerAttempt *attempt)
{
	const ZkLockDriver *driver = &attempt->driver;
	const ZkLockOutcome *outcome = &driver->recipe.outcome;
	const char *data;
	const char *nearest = zklock_driver_nearest(driver, &data);
	bool		is_grant = outcome->verdict == ZKLOCK_GRANTED &&
		attempt->reported.verdict != ZKLOCK_GRANTED;
	ZkLockSlotReport report;

	if (attempt->reported.verdict == outcome->verdict &&
		attempt->reported.queued == outcome->queued &&
		attempt->reported.yielding == outcome->yielding &&
		attempt->reported.paced == outcome->paced &&
		attempt->reported.parents_at == outcome->parents_at &&
		attempt->reported.ahead == outcome->ahead &&
		attempt->nearest_data == data)
		return;
	attempt->reported = report.outcome = *outcome;
	attempt->nearest_data = data;
	report.other = nearest;
	report.text = driver->refused != NULL ? driver->refused : data;
	report.revocable = driver->recipe.params.revocable;
	report.keepable = is_grant && attempt->slot->gate &&
		zklock_keeper_granted(&attempt->keeper, attempt->slot, attempt->serial, driver,
							  attempt->marked);
	if (outcome->verdict != ZKLOCK_PENDING)
	{
		dlist_delete(&attempt->link);
		dlist_push_tail(&settled, &attempt->link);
	}
	zklock_slots_report(attempt->slot, attempt->serial, attempt->generation,
						&report, zklock_clock_now());

	/*
	 * The recipe does not notice that its own node was deleted, if the node
	 * before it goes first.
	 */
	if (outcome->verdict == ZKLOCK_GRANTED && is_node_deleted(attempt))
		zklock_slots_node_deleted(attempt->slot, attempt->serial);
}

/*
 * Run a step of one attempt, in its memory context.  An error is written to
 * the server's log, and the attempt fails.
 */
static void
run_step(WorkerAttempt *attempt, void (*step) (WorkerAttempt *attempt, const void *arg),
		 const void *arg)
{
	MemoryContext before = MemoryContextSwitchTo(attempt->context);

	PG_TRY();
	{
		step(attempt, arg);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(before);
		EmitErrorReport();
		FlushErrorState();

		/*
		 * ZKLOCK_RC_OK shows the backend that ZooKeeper has not refused
		 * anything.  A lock that is already granted remains granted.
		 */
		if (attempt->reported.verdict == ZKLOCK_PENDING)
		{
			attempt->driver.recipe.outcome.verdict = ZKLOCK_DENIED;
			attempt->driver.recipe.outcome.rc = ZKLOCK_RC_OK;
		}
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	update_watches(attempt);
	set_creating(attempt, zklock_driver_creating(&attempt->driver));
	set_wants_parents(attempt, zklock_driver_wants_parents(&attempt->driver));
	any_reply_lost |= attempt->driver.recipe.stalled;
	report(attempt);
}

static void
process_reply(WorkerAttempt *attempt, const void *message)
{
	zklock_driver_process_reply(&attempt->driver, message);
}

static void
receive_reply(const ZkLockMessage *message, void *attempt)
{
	checked_at = zklock_clock_now();
	run_step(attempt, process_reply, message);
}

static void
process_watch(WorkerAttempt *attempt, const void *message)
{
	zklock_driver_process_event(&attempt->driver, message);
}

static void
reread(WorkerAttempt *attempt, const void *arg)
{
	(void) arg;
	zklock_driver_reread(&attempt->driver);
}

static void
check_session(WorkerAttempt *attempt, const void *arg)
{
	(void) arg;
	zklock_driver_check_session(&attempt->driver);
}

/* They are created as soon as any role that waits for the node may create them. */
static void
create_parents(WorkerAttempt *attempt, const void *arg)
{
	Oid			role = InvalidOid;

	(void) arg;
	do
		role = zklock_slots_next_role(attempt->slot, attempt->serial, role);
	while (role != InvalidOid &&
		   !zklock_driver_create_parents(&attempt->driver, role, pace_time));
}

/*
 * The data of a gate's node.  It names the server only: other backends will use the node
 * as well, and if it is kept, at times none does.
 */
static const char *
data_of_server(const ZkLockSlotRequest *asked)
{
	const char *pid = strstr(asked->data, " pid=");

	return pid == NULL ? pstrdup(asked->data) :
		psprintf("%.*s%s", (int) (pid - asked->data), asked->data,
				 asked->params.revocable ? " revocable=t" : "");
}

static void
begin_recipe(WorkerAttempt *attempt, const void *arg)
{
	const ZkLockSlotRequest *asked = arg;
	ZkLockRequest wanted = {
		.params = asked->params,
		.path = pstrdup(asked->path),
		.count = asked->count[0] != '\0' ? pstrdup(asked->count) : NULL,
		.from = asked->from[0] != '\0' ? pstrdup(asked->from) : NULL
	};

	wanted.params.marked = attempt->marked;
	zklock_driver_begin(&attempt->driver, asked->role, &wanted,
						attempt->slot->gate ? data_of_server(asked) : pstrdup(asked->data),
						is_watched);
	zklock_session_register(&attempt->replies, attempt->driver.requester, receive_reply, attempt,
							&left_out);
}

/*
 * Run a step of all attempts without a verdict.  A step may remove one from
 * the list.
 */
static void
run_step_of_all(void (*step) (WorkerAttempt *attempt, const void *arg), const void *arg)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pending)
		run_step(dlist_container(WorkerAttempt, link, iter.cur), step, arg);
}

/*
 * An attempt that watches this node and has not processed this event yet;
 * NULL: none
 */
static WorkerAttempt *
find_watcher(const char *path, uint32 hash, uint64 event)
{
	dlist_iter	iter;

	dlist_foreach(iter, bucket_of(hash))
	{
		const Watch *watch = dlist_container(Watch, link, iter.cur);
		WorkerAttempt *attempt = watch->attempt;

		if (attempt->reported.verdict == ZKLOCK_PENDING && attempt->event != event &&
			is_watch_of(watch, hash, path))
			return attempt;
	}
	return NULL;
}

/*
 * Process the event of a watch.  Few attempts watch the node.  Each may change
 * what it watches.
 */
static void
process_event(const ZkLockMessage *message, void *owner)
{
	static uint64 event = 0;
	uint32		hash = hash_path(message->text);
	WorkerAttempt *attempt;

	(void) owner;
	checked_at = zklock_clock_now();
	event++;
	while ((attempt = find_watcher(message->text, hash, event)) != NULL)
	{
		attempt->event = event;
		run_step(attempt, process_watch, message);
	}
	zklock_keeper_process_event(message->text);
}

/* Process the reply to a backend's request for a confirmation. */
static void
process_answer(const ZkLockMessage *message, void *owner)
{
	WorkerAttempt *attempt = owner;

	zklock_session_unregister(&attempt->answers);
	if (message->rc == ZKLOCK_RC_NO_NODE)
		note_node_deleted(attempt);
	zklock_slots_answer(attempt->slot, attempt->serial, attempt->question,
						message->rc == ZKLOCK_RC_OK ? ZKLOCK_ANSWER_HELD :
						message->rc == ZKLOCK_RC_NO_NODE ? ZKLOCK_ANSWER_GONE :
						ZKLOCK_ANSWER_NONE, is_node_deleted(attempt));
	attempt->question = 0;
}

/*
 * Process the reply to the worker's request for a confirmation.  The recipe of
 * a waiting attempt detects a deleted node by itself.
 */
static void
process_confirmation(const ZkLockMessage *message, void *owner)
{
	WorkerAttempt *attempt = owner;

	zklock_session_unregister(&check);
	if (message->rc != ZKLOCK_RC_NO_NODE)
		return;
	note_node_deleted(attempt);
	checked_at = 0;				/* send the next one without delay */
	if (attempt->reported.verdict == ZKLOCK_GRANTED)
		zklock_slots_node_deleted(attempt->slot, attempt->serial);
}

/* Process the answer to a list that a gate has asked for. */
static void
process_look(const ZkLockMessage *message, void *owner)
{
	WorkerAttempt *attempt = owner;

	if (zklock_keeper_process_list(&attempt->keeper, message))
		return;
	note_node_deleted(attempt);
	zklock_slots_node_deleted(attempt->slot, attempt->serial);
}

void
zklock_workerattempts_deliver(bool stale)
{
	const ZkLockClientStatus *status = zklock_session_status();

	zklock_session_deliver();
	left_out = false;
	if (stale)
		run_step_of_all(reread, NULL);
	if (status == NULL)
		return;
	if (status->state != ZKLOCK_CLIENT_CONNECTED)
		zklock_session_unregister(&check);

	/* This takes long if there are many attempts, and is seldom necessary. */
	if (stale || any_reply_lost || status->connects != connects_seen ||
		zklock_session_generation() == 0)
	{
		connects_seen = status->connects;
		any_reply_lost = false;
		run_step_of_all(check_session, NULL);
	}
}

static void
begin_attempt(ZkLockSlot *slot, const ZkLockSlotRequest *request)
{
	static MemoryContext spare = NULL;	/* left over if a later allocation
										 * failed */
	WorkerAttempt *attempt;
	bool		found;

	if (spare == NULL)
		spare = AllocSetContextCreate(TopMemoryContext, "zklock attempt",
									  ALLOCSET_SMALL_SIZES);
	attempt = hash_search(attempts, &slot, HASH_ENTER, &found);
	Assert(!found);
	memset((char *) attempt + sizeof(ZkLockSlot *), 0,
		   sizeof(WorkerAttempt) - sizeof(ZkLockSlot *));
	attempt->serial = request->wanted;
	attempt->generation = request->generation;
	attempt->marked = slot->gate && zklock_keeper_may_keep(request->path, request->params.mode);
	attempt->of_worker = request->of_worker;
	nof_worker += attempt->of_worker;
	attempt->context = spare;
	spare = NULL;
	dlist_push_tail(&pending, &attempt->link);
	run_step(attempt, begin_recipe, request);
}

static void
request_confirmation(WorkerAttempt *attempt, uint32 question)
{
	ZkLockTag	tag = {.requester = zklock_session_new_requester()};

	zklock_session_register(&attempt->answers, tag.requester, process_answer, attempt, NULL);
	attempt->question = question;
	if (!zklock_zkclient_confirm(attempt->driver.node, tag))
	{
		ZkLockMessage none = {.tag = tag,.rc = ZKLOCK_RC_LOST};

		process_answer(&none, attempt);
	}
}

/* Can another attempt begin now? */
static bool
has_room(bool is_session)
{
	return is_session && creating < ZKLOCK_MAX_CREATING &&
		zklock_zkclient_has_room(zklock_session_client());
}

/*
 * Have the nodes of gates count for the roles that use them, which may not be those that
 * requested them.  If `spare`, those that are kept, and which nobody uses, count as given
 * up.  Returns whether there are any.
 */
static bool
update_owners(bool spare)
{
	HASH_SEQ_STATUS scan;
	WorkerAttempt *attempt;
	bool		any = false;

	hash_seq_init(&scan, attempts);
	while ((attempt = hash_seq_search(&scan)) != NULL)
	{
		Oid			role;

		if (!attempt->slot->gate || attempt->driver.node == NULL)
			continue;
		role = zklock_slots_role(attempt->slot, attempt->serial);
		any |= role == InvalidOid;
		zklock_zkclient_set_owner(attempt->driver.node,
								  role != InvalidOid ? role : attempt->driver.owner,
								  role == InvalidOid && spare);
		if (role != InvalidOid)
			attempt->driver.owner = role;
	}
	return any;
}

/*
 * Is there room in the session for the node that is requested?  A role is refused only when
 * it is certain which nodes its backends have used since the request, and when no node is
 * kept that could make room.  To find that out takes a look at all nodes, so it is not done
 * all the time, and each look is for all requests that were left before it.
 */
static ZkLockRoom
find_room(ZkLockSlot *slot, const ZkLockSlotRequest *asked)
{
	static int64 updated_at = 0;
	static uint32 updates = 0;
	static bool any = false;	/* was a node kept at the last look? */
	static bool spare = false;	/* do such nodes count as given up since then? */
	const ZkLockRequest wanted = {.params = asked->params,.path = asked->path};
	ZkLockRoom	room = zklock_driver_room(&wanted, asked->role);
	int64		now;

	if (room == ZKLOCK_ROOM)
		return room;
	now = zklock_clock_now();
	if (now >= updated_at + SHORT_MS * ZKLOCK_NS_PER_MS)
	{
		any = update_owners(false);
		spare = false;
		updated_at = now;
		updates++;
		room = zklock_driver_room(&wanted, asked->role);
	}
	else if (!zklock_slots_was_left(slot, asked->wanted, updates))
	{
		look_again = true;
		return ZKLOCK_ROOM_LATER;
	}
	if (room == ZKLOCK_ROOM_NONE && any && !spare)
	{
		(void) update_owners(true);
		spare = true;
		room = zklock_driver_room(&wanted, asked->role);
	}
	if (room == ZKLOCK_ROOM_LATER && spare)
	{
		zklock_keeper_give_up_all();
		look_again = true;
	}
	return room;
}

/* Is there anything new for the requests that were left because there was no room? */
static bool
is_room_news(void)
{
	const ZkLockClientStatus *status = zklock_session_status();

	return nshort > 0 && status != NULL && (look_again || status->rooms != rooms_seen);
}

/* A request is left for later. */
static void
note_short(ZkLockSlot *slot)
{
	if (nshort == 0)
		rooms_seen = zklock_session_status()->rooms;
	if (nshort < (int) lengthof(short_slots))
		short_slots[nshort] = slot;
	nshort++;
}

int
zklock_workerattempts_short_ms(void)
{
	return is_room_news() ? SHORT_MS :
		any_paced ? ZKLOCK_DRIVER_PARENTS_MS : INT_MAX;
}

/*
 * Look again at the requests that were left because there was no room.  A slot may be
 * another claim's by now, or free.
 */
static void
post_short(void)
{
	static int64 scanned_at = 0;
	int64		now;

	if (!is_room_news())
		return;
	now = zklock_clock_now();
	if (now < scanned_at + SHORT_MS * ZKLOCK_NS_PER_MS)
		return;
	scanned_at = now;
	look_again = false;
	if (nshort > (int) lengthof(short_slots))
		zklock_slots_scan();
	else
		for (int i = 0; i < nshort; i++)
			zklock_slots_post(short_slots[i]);
	nshort = 0;
}

/* The slot waits for the next step of the pace. */
static void
pace(ZkLockSlot *slot)
{
	any_paced = true;
	zklock_slots_pace(slot);
}

/*
 * Roles may create more paths, and a long list may be over, so look again at the slots that
 * wait for that.
 */
static void
update_pace(void)
{
	int64		now = zklock_clock_now();

	if (now < pace_time + ZKLOCK_DRIVER_PARENTS_MS * ZKLOCK_NS_PER_MS)
		return;
	pace_time = now;
	any_paced = false;
	zklock_slots_stall_paced();
}

static bool
may_begin(const ZkLockSlotRequest *asked)
{
	const ZkLockRequest wanted = {
		.params = asked->params,
		.path = asked->path,
		.from = asked->from[0] != '\0' ? asked->from : NULL
	};

	return zklock_driver_may_begin(&wanted);
}

/* Send the list that a gate has asked for.  Returns false if it must wait. */
static bool
look(WorkerAttempt *attempt, uint32 number)
{
	if (attempt->looks.process == NULL)
		zklock_session_register(&attempt->looks, zklock_session_new_requester(), process_look,
								attempt, &left_out);
	return zklock_keeper_look(&attempt->keeper, number, attempt->looks.requester);
}

/* Create the parents that the attempt wants, in the turn of its owner. */
static void
process_parents(WorkerAttempt *attempt, bool is_session)
{
	if (!has_room(is_session))
	{
		zklock_slots_stall(attempt->slot);
		return;
	}
	run_step(attempt, create_parents, NULL);
	if (attempt->wants_parents)
		pace(attempt->slot);
}

/* `request` is set to what the slot asks for. */
static void
process_slot(ZkLockSlot *slot, ZkLockSlotRequest *request, bool is_session)
{
	WorkerAttempt *attempt;

	if (!zklock_slots_read(slot, request))
		return;

	/* zklock_slots_expire() has missed it. */
	if (request->former)
	{
		zklock_slots_expire_slot(slot, zklock_sessionstate_generation() - 1);
		return;
	}
	attempt = hash_search(attempts, &slot, HASH_FIND, NULL);

	/* The backend still wants the attempt that runs, or has ended. */
	if (request->wanted == request->taken)
	{
		if (attempt != NULL && attempt->wants_parents)
			process_parents(attempt, is_session);
		if (request->look != 0 && attempt != NULL && !look(attempt, request->look))
			pace(slot);
		if (request->asked != 0 && attempt != NULL && attempt->question == 0 &&
			attempt->driver.node != NULL)
			request_confirmation(attempt, request->asked);
		return;
	}
	if (attempt != NULL)
	{
		/*
		 * Its node cannot be deleted yet, and would be ahead of the next
		 * attempt's node.
		 */
		if (attempt->creating)
		{
			attempt->postponed = true;
			return;
		}
		remove_attempt(attempt);
		zklock_slots_drop(slot);
	}
	if (request->wanted == 0)
	{
		if (attempt == NULL)
			zklock_slots_drop(slot);
		return;
	}

	/*
	 * The backend asked before the session ended.  It may hold other locks of
	 * that session, so it must not get one of the next session now.
	 */
	if (request->generation != zklock_sessionstate_generation())
	{
		ZkLockSlotReport expired = {.outcome = {.verdict = ZKLOCK_EXPIRED}};

		if (zklock_slots_take(slot, request->wanted))
			zklock_slots_report(slot, request->wanted, request->generation,
								&expired, zklock_clock_now());
		return;
	}
	if (!has_room(is_session))
	{
		zklock_slots_stall(slot);
		return;
	}
	switch (find_room(slot, request))
	{
		case ZKLOCK_ROOM:
			if (!may_begin(request))
				pace(slot);
			else if (zklock_slots_take(slot, request->wanted))
				begin_attempt(slot, request);
			break;
		case ZKLOCK_ROOM_LATER:
			note_short(slot);
			break;
		case ZKLOCK_ROOM_NONE:
			zklock_slots_refuse(slot, request->wanted, request->role, zklock_clock_now());
			break;
	}
}

/* Process a slot.  If memory is exhausted, only this slot fails. */
static void
try_to_process_slot(ZkLockSlot *slot, bool is_session)
{
	MemoryContext before = CurrentMemoryContext;
	ZkLockSlotRequest request;

	PG_TRY();
	{
		process_slot(slot, &request, is_session);
	}
	PG_CATCH();
	{
		ZkLockSlotReport denied = {.outcome = {.verdict = ZKLOCK_DENIED}};

		MemoryContextSwitchTo(before);
		EmitErrorReport();
		FlushErrorState();
		if (request.wanted != request.taken)
			zklock_slots_report(slot, request.wanted, request.generation,
								&denied, zklock_clock_now());
	}
	PG_END_TRY();
}

void
zklock_workerattempts_process_slots(bool is_session)
{
	ZkLockSlot *slot = NULL;
	int			processed = 0;

	post_short();
	update_pace();

	/* The stalled slots were first. */
	while (has_room(is_session) &&
		   (slot = zklock_slots_next_stalled()) != NULL)
		try_to_process_slot(slot, is_session);
	while (processed++ < MAX_PROCESSED && (slot = zklock_slots_next()) != NULL)
		try_to_process_slot(slot, is_session);
	if (slot != NULL)
		SetLatch(MyLatch);		/* there may be more slots */
	zklock_slots_finished();
}

/*
 * Find an attempt whose node exists, as far as is known, or NULL.  Granted
 * attempts are used in turn, so that the worker detects each deleted node.
 */
static WorkerAttempt *
find_existing(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &settled)
	{
		WorkerAttempt *attempt = dlist_container(WorkerAttempt, link, iter.cur);

		if (attempt->reported.verdict == ZKLOCK_GRANTED && !is_node_deleted(attempt))
		{
			dlist_delete(&attempt->link);
			dlist_push_tail(&settled, &attempt->link);
			return attempt;
		}
	}
	dlist_foreach(iter, &pending)
	{
		WorkerAttempt *attempt = dlist_container(WorkerAttempt, link, iter.cur);

		if (attempt->driver.recipe.outcome.token != 0 && !is_node_deleted(attempt))
			return attempt;
	}
	return NULL;
}

void
zklock_workerattempts_check_nodes(void)
{
	const ZkLockClientStatus *status = zklock_session_status();
	int64		now = zklock_clock_now();
	WorkerAttempt *attempt;
	ZkLockTag	tag = {0};

	if (status == NULL || status->state != ZKLOCK_CLIENT_CONNECTED ||
		check.process != NULL ||
		now - checked_at < zklock_proof_beat(status->timeout * ZKLOCK_NS_PER_MS))
		return;
	checked_at = now;
	attempt = find_existing();
	if (attempt == NULL || attempt->driver.node == NULL)
		return;
	tag.requester = zklock_session_new_requester();
	if (zklock_zkclient_confirm(attempt->driver.node, tag))
		zklock_session_register(&check, tag.requester, process_confirmation, attempt, NULL);
}

void
zklock_workerattempts_pass_on_revocations(void)
{
	static uint32 passed_on = 0;
	const ZkLockClientStatus *status = zklock_session_status();
	dlist_iter	iter;

	if (status == NULL || status->revocations == passed_on)
		return;
	passed_on = status->revocations;
	dlist_foreach(iter, &settled)
	{
		WorkerAttempt *attempt = dlist_container(WorkerAttempt, link, iter.cur);
		uint32		revocations = attempt->reported.verdict == ZKLOCK_GRANTED ?
			zklock_zkclient_revocations(attempt->driver.node) : 0;

		if (revocations == attempt->revocations)
			continue;
		attempt->revocations = revocations;
		zklock_slots_revoked(attempt->slot, attempt->serial);
	}
}

int
zklock_workerattempts_count(void)
{
	Assert(nof_worker >= 0);
	return (int) hash_get_num_entries(attempts) - nof_worker;
}

/* The oldest attempt of a backend in this list; NULL: none */
static WorkerAttempt *
find_oldest(dlist_head *list)
{
	dlist_iter	iter;

	dlist_foreach(iter, list)
	{
		WorkerAttempt *attempt = dlist_container(WorkerAttempt, link, iter.cur);

		if (!attempt->of_worker)
			return attempt;
	}
	return NULL;
}

int
zklock_workerattempts_oldest(void)
{
	WorkerAttempt *attempt = find_oldest(&settled);

	if (attempt == NULL)
		attempt = find_oldest(&pending);
	return attempt == NULL ? 0 : zklock_slots_pid(attempt->slot);
}

bool
zklock_workerattempts_waits_at(const char *path)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pending)
	{
		const WorkerAttempt *attempt = dlist_container(WorkerAttempt, link, iter.cur);

		if (!attempt->of_worker && attempt->driver.path != NULL &&
			strcmp(attempt->driver.path, path) == 0)
			return true;
	}
	return false;
}

void
zklock_workerattempts_drop_all(void)
{
	HASH_SEQ_STATUS scan;
	WorkerAttempt *attempt;

	/*
	 * The session has ended, or is closed next, and ZooKeeper deletes its
	 * nodes.
	 */
	hash_seq_init(&scan, attempts);
	while ((attempt = hash_seq_search(&scan)) != NULL)
	{
		MemoryContext context = attempt->context;

		forget_watches(attempt);
		set_creating(attempt, 0);
		if (attempt->slot->gate)
			zklock_keeper_ended(&attempt->keeper, &attempt->driver);
		unregister(attempt);
		(void) hash_search(attempts, &attempt->slot, HASH_REMOVE, NULL);
		MemoryContextDelete(context);
	}
	dlist_init(&pending);
	dlist_init(&settled);
	nof_worker = 0;
	checked_at = 0;
}
