/*-------------------------------------------------------------------------
 *
 * acquire.c
 *	  Taking locks and giving them back.  See acquire.h.
 *
 * This is the driver of recipe.c: it performs the actions over the session and
 * turns messages into events until the attempt is over.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "acquire.h"
#include "commands/dbcommands.h"
#include "compat.h"
#include "errors.h"
#include "guc.h"
#include "lease.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "session.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/timeout.h"

typedef struct Attempt
{
	ZkLockRecipe recipe;
	const char *path;
	ZkLockNode *node;
	uintptr_t	tag;			/* of its requests, but for the lower half */
	uint32		session;		/* the session it is made in */
	uint32		connects;		/* connections of it that the recipe knows of */
	int64		disconnected;	/* since when; 0: it is connected */

	/* what the server refused, for the message */
	ZkLockRc	rc;
	int			code;
} Attempt;

static void
let_go(ZkLockHold *hold)
{
	if (hold->node != NULL && hold->session == zklock_session_current())
		zklock_zkclient_leave(hold->node);
}

void
zklock_acquire_init(void)
{
	zklock_locktable_init(let_go);
}

ZkLockHold *
zklock_acquire_find(const char *path, ZkLockMode mode)
{
	ZkLockHold *hold;

	zklock_session_poll();
	hold = zklock_locktable_find(path, mode);
	if (hold != NULL && hold->session != zklock_session_current())
		zklock_lease_check();
	return hold;
}

/* The text in our nodes, for people who look at the queue in ZooKeeper. */
static char *
describe_self(void)
{
	char		host[256];
	char	   *database;
	char	   *user;
	char	   *text;

	if (gethostname(host, sizeof(host)) != 0)
		strlcpy(host, "?", sizeof(host));
	host[sizeof(host) - 1] = '\0';
	database = get_database_name(MyDatabaseId);
	user = GetUserNameFromId(GetSessionUserId(), true);
	text = psprintf("host=%s port=%d pid=%d database=%s user=%s application=%s",
					host, PostPortNumber, MyProcPid,
					database != NULL ? database : "",
					user != NULL ? user : "",
					application_name != NULL ? application_name : "");
	return pg_server_to_any(text, strlen(text), PG_UTF8);
}

/* "_c_", a random UUID and "-": Curator's protected names. */
static void
make_prefix(char *prefix)
{
	uint8		r[16];

	if (!pg_strong_random(r, sizeof(r)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	r[6] = (r[6] & 0x0f) | 0x40;
	r[8] = (r[8] & 0x3f) | 0x80;
	snprintf(prefix, ZKLOCK_PREFIX_LEN + 1,
			 "_c_%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x-",
			 r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7],
			 r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
}

static char *
child_path(const char *dir, const char *name)
{
	return psprintf("%s/%s", dir, name);
}

static void
raise_too_much(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("too much memory or too many ZooKeeper requests in use")));
}

/* ---- performing what the recipe asks for ---- */

/* A second node under our prefix, which only a fault can have left. */
static void
drop_surplus(Attempt *attempt, const char *name)
{
	ZkLockNode *node = zklock_zkclient_node(zklock_session_client(),
											attempt->path,
											attempt->recipe.prefix,
											zklock_recipe_marker(attempt->recipe.mode));

	if (node == NULL)
		raise_too_much();
	if (!zklock_zkclient_adopt(node, name))
	{
		zklock_zkclient_leave(node);
		raise_too_much();
	}
	zklock_zkclient_leave(node);
}

static void
perform(Attempt *attempt, const ZkLockActions *actions)
{
	ZkLockClient *client = zklock_session_client();

	for (int i = 0; i < actions->n; i++)
	{
		const ZkLockAction *action = &actions->act[i];
		uintptr_t	tag = attempt->tag |
			(action->request & ZKLOCK_TAG_MASK);
		bool		taken = true;

		switch (action->kind)
		{
			case ZKLOCK_DO_MAKE_PARENTS:
				taken = zklock_zkclient_make_parents(client, attempt->path, tag);
				break;
			case ZKLOCK_DO_CREATE:
				taken = zklock_zkclient_create(client, attempt->node,
											   describe_self(), tag);
				break;
			case ZKLOCK_DO_LIST:
				taken = zklock_zkclient_list(client, attempt->path, tag);
				break;
			case ZKLOCK_DO_VERIFY:
				if (!zklock_zkclient_adopt(attempt->node, action->name))
					raise_too_much();
				/* FALLTHROUGH */
			case ZKLOCK_DO_WATCH:
				taken = zklock_zkclient_get(client,
											child_path(attempt->path,
													   action->name),
											action->kind == ZKLOCK_DO_WATCH,
											tag);
				break;
			case ZKLOCK_DO_SYNC:
				taken = zklock_zkclient_sync(client, attempt->path, tag);
				break;
			case ZKLOCK_DO_DROP:
				drop_surplus(attempt, action->name);
				break;
			case ZKLOCK_DO_GRANT:
			case ZKLOCK_DO_FAIL:
				break;			/* the verdict says it */
		}
		if (!taken)
			raise_too_much();
	}
}

/* ---- telling the recipe what happened ---- */

static ZkLockReply
reply_of(const ZkLockMessage *message)
{
	switch (message->rc)
	{
		case ZKLOCK_RC_OK:
			return ZKLOCK_OK;
		case ZKLOCK_RC_NODE_EXISTS:

			/* A parent that is there is as good as one just made. */
			return message->kind == ZKLOCK_MSG_PARENTS_MADE ?
				ZKLOCK_OK : ZKLOCK_REFUSED;
		case ZKLOCK_RC_NO_NODE:
			return ZKLOCK_NO_NODE;
		case ZKLOCK_RC_NO_CHILDREN:
			return ZKLOCK_NO_CHILDREN;
		case ZKLOCK_RC_LOST:
		case ZKLOCK_RC_OVER:
			return ZKLOCK_LOST;
		default:
			return ZKLOCK_REFUSED;
	}
}

static void
feed(Attempt *attempt, const ZkLockEvent *event)
{
	ZkLockActions actions;

	zklock_recipe_feed(&attempt->recipe, event, &actions);
	perform(attempt, &actions);
}

static void
feed_simple(Attempt *attempt, ZkLockEventKind kind)
{
	ZkLockEvent event = {.kind = kind};

	feed(attempt, &event);
}

static void
feed_message(Attempt *attempt, const ZkLockMessage *message)
{
	static const ZkLockEventKind kinds[] = {
		[ZKLOCK_MSG_PARENTS_MADE] = ZKLOCK_EV_PARENTS_MADE,
		[ZKLOCK_MSG_CREATED] = ZKLOCK_EV_CREATED,
		[ZKLOCK_MSG_LISTED] = ZKLOCK_EV_LISTED,
		[ZKLOCK_MSG_GOT] = ZKLOCK_EV_WATCHED,
		[ZKLOCK_MSG_SYNCED] = ZKLOCK_EV_SYNCED,
		[ZKLOCK_MSG_DELETED] = ZKLOCK_EV_DELETED,
		[ZKLOCK_MSG_CHANGED] = ZKLOCK_EV_CHANGED
	};
	ZkLockEvent event = {0};

	if ((message->tag & ~ZKLOCK_TAG_MASK) != attempt->tag)
		return;
	event.request = (uint32_t) (message->tag & ZKLOCK_TAG_MASK);
	event.kind = kinds[message->kind];
	if (message->kind == ZKLOCK_MSG_GOT &&
		event.request == attempt->recipe.verify)
		event.kind = ZKLOCK_EV_VERIFIED;
	event.reply = reply_of(message);
	event.name = message->text;
	event.czxid = message->czxid;
	event.owner = message->owner;
	event.children = message->children;
	event.nchildren = message->nchildren;

	if (event.reply == ZKLOCK_REFUSED && attempt->rc == ZKLOCK_RC_OK)
	{
		attempt->rc = message->rc;
		attempt->code = message->code;
	}
	feed(attempt, &event);
}

static void
feed_messages(Attempt *attempt, ZkLockMessage *messages)
{
	while (messages != NULL)
	{
		ZkLockMessage *message = messages;

		messages = message->next;

		/*
		 * Should an error get between, the rest is lost to us, which costs
		 * memory but no lock.
		 */
		feed_message(attempt, message);
		zklock_zkclient_free(message);
	}
}

/* What the session's state means to the recipe. */
static void
feed_state(Attempt *attempt)
{
	const ZkLockClientStatus *status = zklock_session_status();

	if (zklock_session_current() != attempt->session)
		feed_simple(attempt, ZKLOCK_EV_EXPIRED);
	else if (status->state != ZKLOCK_CLIENT_CONNECTED)
	{
		if (attempt->disconnected == 0)
			attempt->disconnected = zklock_zkclient_now();
	}
	else if (status->connects != attempt->connects || attempt->recipe.stalled)
	{
		attempt->connects = status->connects;
		attempt->disconnected = 0;
		feed_simple(attempt, ZKLOCK_EV_CONNECTED);
	}
}

/* ---- waiting ---- */

/* log_lock_waits, in the words of ProcSleep() */
static void
log_wait(const Attempt *attempt, int64 began, const char *what)
{
	int64		us = (zklock_zkclient_now() - began) / 1000;

	ereport(LOG,
			(errmsg("process %d %s ZooKeeper lock on \"%s\" after %ld.%03d ms",
					MyProcPid, what, zklock_errors_path(attempt->path),
					(long) (us / 1000), (int) (us % 1000))));
}

/* A connection that stays away for longer than a session lives is gone. */
static int64
disconnect_limit(const Attempt *attempt)
{
	if (attempt->disconnected == 0)
		return ZKLOCK_NEVER;
	return attempt->disconnected +
		((int64) zklock_session_status()->timeout + zklock_connect_timeout) *
		ZKLOCK_NS_PER_MS;
}

/* Run the attempt to its verdict. */
static void
drive(Attempt *attempt, int64 deadline)
{
	int64		began = zklock_zkclient_now();
	int64		log_at = log_lock_waits ?
		began + DeadlockTimeout * ZKLOCK_NS_PER_MS : ZKLOCK_NEVER;
	bool		logged = false;

	while (attempt->recipe.verdict == ZKLOCK_PENDING)
	{
		int64		limit = disconnect_limit(attempt);
		int64		now;

		feed_messages(attempt,
					  zklock_session_wait(Min(deadline, Min(limit, log_at))));
		feed_state(attempt);

		now = zklock_zkclient_now();
		if (now >= deadline)
			feed_simple(attempt, ZKLOCK_EV_DEADLINE);
		else if (now >= disconnect_limit(attempt))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("lost the connection to ZooKeeper while waiting for lock on \"%s\"",
							zklock_errors_path(attempt->path)),
					 errhint("Check that the servers in zklock.hosts are up and have a quorum.")));
		if (now >= log_at && attempt->recipe.verdict == ZKLOCK_PENDING)
		{
			log_wait(attempt, began, "still waiting for");
			logged = true;
			log_at = ZKLOCK_NEVER;
		}
	}
	if (logged && attempt->recipe.verdict == ZKLOCK_GRANTED)
		log_wait(attempt, began, "acquired");
}

/* Begin an attempt in the present session and run it to its verdict. */
static void
run_attempt(Attempt *attempt, ZkLockMode mode, bool nowait, int64 deadline)
{
	char		prefix[ZKLOCK_PREFIX_LEN + 1];
	const ZkLockClientStatus *status = zklock_session_status();
	ZkLockActions actions;

	make_prefix(prefix);
	attempt->tag = zklock_session_new_tag();
	attempt->session = zklock_session_current();
	attempt->connects = status->connects;
	attempt->disconnected = 0;
	attempt->rc = ZKLOCK_RC_OK;
	attempt->node = zklock_zkclient_node(zklock_session_client(),
										 attempt->path, prefix,
										 zklock_recipe_marker(mode));
	if (attempt->node == NULL)
		raise_too_much();

	zklock_recipe_begin(&attempt->recipe, mode, prefix, status->session,
						nowait, &actions);
	perform(attempt, &actions);
	drive(attempt, deadline);
}

/* Undo an attempt that did not end with a grant. */
static void
abandon(Attempt *attempt)
{
	if (attempt->node != NULL && attempt->session == zklock_session_current())
		zklock_zkclient_leave(attempt->node);
	attempt->node = NULL;
}

static void
raise_verdict(const Attempt *attempt)
{
	char	   *path = zklock_errors_path(attempt->path);

	switch (attempt->recipe.verdict)
	{
		case ZKLOCK_DENIED:
			zklock_errors_raise(attempt->rc, attempt->code, "lock",
								path);
			break;
		case ZKLOCK_NO_ROOT:
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("could not create lock path \"%s\" in ZooKeeper",
							path),
					 errhint("The path at the end of zklock.hosts must exist, and zklock.auth must be allowed to create nodes below it.")));
			break;
		case ZKLOCK_NOT_A_QUEUE:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" cannot be used as a lock path", path),
					 errdetail("It is, or is below, an ephemeral node, which cannot have children."),
					 errhint("Use another path.")));
			break;
		case ZKLOCK_WORN_OUT:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("the sequence numbers of lock path \"%s\" are used up",
							path),
					 errhint("Let all its users finish, then delete the path in ZooKeeper: it is created anew.")));
			break;
		case ZKLOCK_FOREIGN_NAME:
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("a node below lock path \"%s\" has too long a name",
							path),
					 errhint("See the path's children in ZooKeeper for a client that queues under such names.")));
			break;
		case ZKLOCK_PENDING:
		case ZKLOCK_GRANTED:
		case ZKLOCK_TIMED_OUT:
		case ZKLOCK_EXPIRED:
			break;				/* not errors */
	}
}

/*
 * Queue for the lock until it is ours (true) or `patience` is over (false).
 *
 * A session that expires while we wait takes our place in the queue with it,
 * and everything that this backend held.  If it held nothing, nothing but the
 * place is lost: go on with a new session.
 */
static bool
queue_for(Attempt *attempt, ZkLockMode mode, int64 patience)
{
	int64		now = zklock_zkclient_now();
	bool		nowait = patience <= 0;
	int64		deadline;

	deadline = nowait || patience > ZKLOCK_NEVER - now ?
		ZKLOCK_NEVER : now + patience;

	for (;;)
	{
		if (!zklock_session_connect(deadline))
			return false;

		/* To take a lock that is free needs an answer all the same. */
		if (nowait)
			deadline = zklock_zkclient_now() +
				zklock_connect_timeout * ZKLOCK_NS_PER_MS;
		run_attempt(attempt, mode, nowait, deadline);
		if (attempt->recipe.verdict == ZKLOCK_GRANTED)
			return true;
		abandon(attempt);
		if (attempt->recipe.verdict != ZKLOCK_EXPIRED)
			break;
		zklock_lease_check();
	}

	raise_verdict(attempt);
	if (nowait && zklock_zkclient_now() >= deadline)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("ZooKeeper did not answer within %d ms (zklock.connect_timeout)",
						zklock_connect_timeout),
				 errhint("Check that the servers in zklock.hosts are up and have a quorum.")));
	return false;
}

ZkLockHold *
zklock_acquire(const char *path, ZkLockMode mode, ZkLockScope scope,
			   int64 patience)
{
	ZkLockHold *hold = zklock_acquire_find(path, mode);
	Attempt		attempt = {.path = path};
	volatile bool granted = false;

	if (hold != NULL)
	{
		zklock_locktable_add(hold, scope);
		return hold;
	}

	zklock_lease_check();
	if (zklock_session_is_outdated() && zklock_locktable_size() == 0)
		zklock_session_close();

	/* Whatever may fail for want of memory comes before the node. */
	hold = zklock_locktable_enter(path, mode);
	PG_TRY();
	{
		zklock_locktable_add(hold, scope);
		if (LockTimeout > 0)
			enable_timeout_after(LOCK_TIMEOUT, LockTimeout);
		granted = queue_for(&attempt, mode, patience);
	}
	PG_FINALLY();
	{
		if (LockTimeout > 0)
			disable_timeout(LOCK_TIMEOUT, false);
		if (!granted)
		{
			abandon(&attempt);
			zklock_locktable_forget(hold);
		}
	}
	PG_END_TRY();
	if (!granted)
		return NULL;

	hold->granted = true;
	hold->session = attempt.session;
	hold->node = attempt.node;
	strlcpy(hold->name, attempt.recipe.name, sizeof(hold->name));
	hold->token = attempt.recipe.token;
	if (attempt.recipe.seq >= ZKLOCK_SEQ_WORN)
		ereport(WARNING,
				(errmsg("the sequence numbers of lock path \"%s\" are nearly used up",
						zklock_errors_path(path)),
				 errdetail("The last one given was " INT64_FORMAT " of 2147483646.",
						   attempt.recipe.seq),
				 errhint("Let all its users finish, then delete the path in ZooKeeper: it is created anew.")));
	return hold;
}
