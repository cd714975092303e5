/*-------------------------------------------------------------------------
 *
 * attempt.c
 *	  Attempts to take locks, run over the session.  See attempt.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/attempt.h"
#include "backend/compat.h"
#include "backend/errors.h"
#include "backend/guc.h"
#include "backend/nodedata.h"
#include "backend/session.h"
#include "backend/text.h"
#include "miscadmin.h"
#include "shared/claims.h"
#include "storage/proc.h"

/* "_c_", a random UUID and "-": Curator's protected names. */
static const char *
new_prefix(void)
{
	uint8		r[16];

	if (!pg_strong_random(r, sizeof(r)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	r[6] = (r[6] & 0x0f) | 0x40;
	r[8] = (r[8] & 0x3f) | 0x80;
	return psprintf("_c_%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x-",
					r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7],
					r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
}

static char *
child_path(const ZkLockAttempt *attempt, const char *name)
{
	return psprintf("%s/%s", attempt->dir, name);
}

/* A second node under our prefix, which only a fault can have left. */
static void
drop_surplus(ZkLockAttempt *attempt, const char *name)
{
	ZkLockNode *node = zklock_zkclient_node(zklock_session_client(),
											attempt->dir,
											attempt->recipe.prefix,
											zklock_recipe_marker(attempt->recipe.mode));

	if (node == NULL)
		zklock_errors_too_much();
	if (!zklock_zkclient_adopt(node, name))
	{
		zklock_zkclient_leave(node);
		zklock_errors_too_much();
	}
	zklock_zkclient_leave(node);
}

static void
perform(ZkLockAttempt *attempt, const ZkLockActions *actions)
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
				taken = zklock_zkclient_make_parents(client, attempt->dir, tag);
				break;
			case ZKLOCK_DO_CREATE:
				taken = zklock_zkclient_create(client, attempt->node,
											   attempt->data, tag);
				break;
			case ZKLOCK_DO_LIST:
				taken = zklock_zkclient_list(client, attempt->dir,
											 attempt->recipe.mode == ZKLOCK_SEMAPHORE,
											 tag);
				break;
			case ZKLOCK_DO_VERIFY:
				if (!attempt->recipe.fixed &&
					!zklock_zkclient_adopt(attempt->node, action->name))
					zklock_errors_too_much();
				/* FALLTHROUGH */
			case ZKLOCK_DO_WATCH:
				taken = zklock_zkclient_get(client,
											child_path(attempt, action->name),
											action->kind == ZKLOCK_DO_WATCH,
											tag);
				break;
			case ZKLOCK_DO_TOUCH:
				taken = zklock_zkclient_set(client,
											child_path(attempt, action->name),
											attempt->data, tag);
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
			zklock_errors_too_much();
	}
}

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
				ZKLOCK_OK : ZKLOCK_NODE_EXISTS;
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
feed(ZkLockAttempt *attempt, const ZkLockEvent *event)
{
	ZkLockActions actions;

	zklock_recipe_feed(&attempt->recipe, event, &actions);
	perform(attempt, &actions);
}

static void
feed_simple(ZkLockAttempt *attempt, ZkLockEventKind kind)
{
	ZkLockEvent event = {.kind = kind};

	feed(attempt, &event);
}

static bool
ends_with(const char *s, const char *end)
{
	size_t		len = strlen(s);
	size_t		endlen = strlen(end);

	return len >= endlen && strcmp(s + len - endlen, end) == 0;
}

/* The node so many levels below the root, on the way to our own. */
static char *
ancestor(const ZkLockAttempt *attempt, int depth)
{
	char	   *path = pstrdup(attempt->dir);
	char	   *end = path;

	while (depth-- > 0 && end != NULL)
		end = strchr(end + 1, '/');
	if (end != NULL)
		*end = '\0';
	return path;
}

/* The node whose data this request asks for. */
static const char *
name_asked_for(const ZkLockRecipe *r, uint32 request)
{
	return request == r->nearest.request ? r->nearest.name :
		request == r->lookahead.request ? r->lookahead.name : r->name;
}

/* What was asked with the request that is refused now, palloc'd. */
static char *
describe_request(const ZkLockAttempt *attempt, const ZkLockMessage *message)
{
	const ZkLockRecipe *r = &attempt->recipe;
	uint32		request = (uint32) (message->tag & ZKLOCK_TAG_MASK);

	switch (message->kind)
	{
		case ZKLOCK_MSG_PARENTS_MADE:
			return psprintf("create \"%s\"", ancestor(attempt, message->depth));
		case ZKLOCK_MSG_CREATED:
			return r->fixed ?
				psprintf("create \"%s\"", child_path(attempt, r->name)) :
				psprintf("create a node below \"%s\"", attempt->dir);
		case ZKLOCK_MSG_LISTED:
			return psprintf("list the children of \"%s\"", attempt->dir);
		case ZKLOCK_MSG_GOT:
			return psprintf("read \"%s\"",
							child_path(attempt, name_asked_for(r, request)));
		case ZKLOCK_MSG_SET:
			return psprintf("write to \"%s\"", child_path(attempt, r->touched));
		default:
			return psprintf("look at \"%s\"", attempt->dir);
	}
}

/* Who stands before us, for log_wait(): it is the holder if nobody else is ahead. */
static void
note_nearest(ZkLockAttempt *attempt, const ZkLockMessage *message)
{
	const char *node = attempt->recipe.nearest.name;

	if (attempt->nearest != NULL)
		pfree(attempt->nearest);
	attempt->nearest = message->text == NULL ?
		psprintf("node \"%s\"", zklock_text_from_utf8(node)) :
		psprintf("%s (node \"%s\")", zklock_text_from_utf8(message->text),
				 zklock_text_from_utf8(node));
}

static void
feed_message(ZkLockAttempt *attempt, const ZkLockMessage *message)
{
	static const ZkLockEventKind kinds[] = {
		[ZKLOCK_MSG_PARENTS_MADE] = ZKLOCK_EV_PARENTS_MADE,
		[ZKLOCK_MSG_CREATED] = ZKLOCK_EV_CREATED,
		[ZKLOCK_MSG_LISTED] = ZKLOCK_EV_LISTED,
		[ZKLOCK_MSG_GOT] = ZKLOCK_EV_WATCHED,
		[ZKLOCK_MSG_SET] = ZKLOCK_EV_TOUCHED,
		[ZKLOCK_MSG_SYNCED] = ZKLOCK_EV_SYNCED
	};
	ZkLockEvent event = {0};

	event.request = (uint32_t) (message->tag & ZKLOCK_TAG_MASK);
	event.kind = kinds[message->kind];
	if (message->kind == ZKLOCK_MSG_GOT &&
		event.request == attempt->recipe.verify)
		event.kind = ZKLOCK_EV_VERIFIED;
	else if (message->kind == ZKLOCK_MSG_GOT &&
			 event.request == attempt->recipe.nearest.request)
		note_nearest(attempt, message);
	event.reply = reply_of(message);
	event.name = message->text;
	event.czxid = message->czxid;
	event.owner = message->owner;
	event.version = message->version;
	event.has_prefix = message->text != NULL &&
		ends_with(message->text, attempt->recipe.prefix);
	event.children = message->children;
	event.nchildren = message->nchildren;

	if (event.reply == ZKLOCK_REFUSED && attempt->refused == NULL)
	{
		attempt->refused = describe_request(attempt, message);
		attempt->rc = message->rc;
		attempt->code = message->code;
	}
	feed(attempt, &event);
}

/* What the session's state means to the recipe. */
static void
feed_state(ZkLockAttempt *attempt)
{
	const ZkLockClientStatus *status = zklock_session_status();

	if (!zklock_session_is_current(attempt->session))
		feed_simple(attempt, ZKLOCK_EV_EXPIRED);
	else if (status->state == ZKLOCK_CLIENT_CONNECTED &&
			 (status->connects != attempt->connects || attempt->recipe.stalled))
	{
		attempt->connects = status->connects;
		feed_simple(attempt, ZKLOCK_EV_CONNECTED);
	}
}

/* Is `path` what this slot watches? */
static bool
is_watched(const ZkLockAttempt *attempt, const ZkLockWatch *slot,
		   const char *path)
{
	size_t		len = strlen(attempt->dir);

	if (slot->request == 0 || strncmp(path, attempt->dir, len) != 0)
		return false;
	path += len;
	return *path == '/' ? strcmp(path + 1, slot->name) == 0 :
		*path == '\0' && slot->name[0] == '\0';
}

static void
feed_watch(ZkLockAttempt *attempt, const ZkLockMessage *message)
{
	const ZkLockRecipe *r = &attempt->recipe;
	ZkLockEvent event = {0};

	/*
	 * What happened while there was no connection is told in short: a node
	 * that was set and then deleted is deleted.  The recipe looks anew anyway,
	 * as soon as it is told of the connection.
	 */
	if (attempt->connects != zklock_session_status()->connects)
		return;

	if (is_watched(attempt, &r->nearest, message->text))
		event.request = r->nearest.request;
	else if (is_watched(attempt, &r->lookahead, message->text))
		event.request = r->lookahead.request;
	else
		return;
	event.kind = message->kind == ZKLOCK_MSG_DELETED ?
		ZKLOCK_EV_DELETED : ZKLOCK_EV_CHANGED;
	feed(attempt, &event);
}

/*
 * Hand each message to whom it is for.  Should an error get between, the rest
 * is lost, which costs memory but no lock.
 */
static void
deliver(ZkLockAttempt *attempts, int n, ZkLockMessage *messages)
{
	while (messages != NULL)
	{
		ZkLockMessage *message = messages;

		messages = message->next;
		for (int i = 0; i < n; i++)
		{
			if (message->kind == ZKLOCK_MSG_DELETED ||
				message->kind == ZKLOCK_MSG_CHANGED)
				feed_watch(&attempts[i], message);
			else if ((message->tag & ~ZKLOCK_TAG_MASK) == attempts[i].tag)
				feed_message(&attempts[i], message);
		}
		zklock_zkclient_free(message);
	}
}

/*
 * What has come may be long over: have nothing of it, and every attempt look
 * anew, as it does after a lost connection.
 */
static void
disregard(ZkLockAttempt *attempts, int n, ZkLockMessage *messages)
{
	while (messages != NULL)
	{
		ZkLockMessage *message = messages;

		messages = message->next;
		zklock_zkclient_free(message);
	}
	for (int i = 0; i < n; i++)
		attempts[i].connects = 0;
}

/* log_lock_waits, in the words of ProcSleep() */
static void
log_wait(const ZkLockAttempt *attempt, int64 began, const char *what)
{
	const ZkLockRecipe *r = &attempt->recipe;
	int64		us = (zklock_zkclient_now() - began) / 1000;
	bool		waits = r->verdict == ZKLOCK_PENDING && r->queued &&
		attempt->nearest != NULL;

	ereport(LOG,
			(errmsg("process %d %s ZooKeeper lock on \"%s\" after %ld.%03d ms",
					MyProcPid, what, zklock_errors_path(attempt->path),
					(long) (us / 1000), (int) (us % 1000)),
			 !waits ? 0 :
			 r->ahead > 1 ?
			 errdetail_log("%d are ahead.  The last of them is %s.", r->ahead,
						   attempt->nearest) :
			 errdetail_log("The lock is held by %s.", attempt->nearest)));
}

/* Does the title of the process say that it waits? */
static bool titled = false;

/* For those who look on: it is known that others are ahead of this attempt. */
static void
show_wait(ZkLockAttempt *attempt)
{
	if (!attempt->recipe.queued || attempt->shown)
		return;
	attempt->shown = attempt->waited = true;
	zklock_claims_queued(attempt->claim, attempt->recipe.name);
	if (!titled && update_process_title)
	{
		titled = true;
		zklock_compat_title("waiting for ZooKeeper lock");
	}
}

void
zklock_attempt_wait_over(void)
{
	if (titled)
		zklock_compat_title(NULL);
	titled = false;
}

/* The first attempt that goes on, or NULL. */
static ZkLockAttempt *
find_pending(ZkLockAttempt *attempts, int n, bool queued_is_enough)
{
	for (int i = 0; i < n; i++)
	{
		const ZkLockRecipe *r = &attempts[i].recipe;

		if (r->verdict == ZKLOCK_PENDING && !(r->queued && queued_is_enough))
			return &attempts[i];
	}
	return NULL;
}

void
zklock_attempt_drive(ZkLockAttempt *attempts, int n, int64 deadline,
					 bool queued_is_enough)
{
	const ZkLockClientStatus *status = zklock_session_status();
	int64		began = zklock_zkclient_now();
	int64		log_at = log_lock_waits ?
		began + DeadlockTimeout * ZKLOCK_NS_PER_MS : ZKLOCK_NEVER;
	int64		gone_at = ZKLOCK_NEVER; /* when a lost connection is given up */
	ZkLockAttempt *logged = NULL;
	ZkLockAttempt *pending;

	while ((pending = find_pending(attempts, n, queued_is_enough)) != NULL)
	{
		ZkLockMessage *messages;
		bool		stale;
		int64		now;

		messages = zklock_session_wait(Min(deadline, Min(gone_at, log_at)),
									   &stale);
		if (stale)
			disregard(attempts, n, messages);
		else
			deliver(attempts, n, messages);
		now = zklock_zkclient_now();
		for (int i = 0; i < n; i++)
		{
			feed_state(&attempts[i]);
			if (now >= deadline)
				feed_simple(&attempts[i], ZKLOCK_EV_DEADLINE);
			show_wait(&attempts[i]);
		}
		pending = find_pending(attempts, n, queued_is_enough);

		/* One that stays away for longer than a session lives is gone. */
		if (zklock_session_current() == 0 ||
			status->state == ZKLOCK_CLIENT_CONNECTED)
			gone_at = ZKLOCK_NEVER;
		else if (gone_at == ZKLOCK_NEVER)
			gone_at = now + ((int64) status->timeout + zklock_connect_timeout) *
				ZKLOCK_NS_PER_MS;
		else if (pending != NULL && now >= gone_at)
		{
			char	   *message = psprintf("lost the connection to ZooKeeper while waiting for lock on \"%s\"",
											   zklock_errors_path(pending->path));

			/* Its servers may be elsewhere now: the next one looks for them. */
			zklock_session_close();
			zklock_session_raise_silence(message);
		}

		if (pending != NULL && now >= log_at)
		{
			log_wait(pending, began, "still waiting for");
			logged = pending;
			log_at = ZKLOCK_NEVER;
		}
	}
	if (logged != NULL && logged->recipe.verdict == ZKLOCK_GRANTED)
		log_wait(logged, began, "acquired");
}

/* What all attempts begin with.  Returns the prefix of their node's name. */
static const char *
prepare(ZkLockAttempt *attempt, const char *path)
{
	attempt->path = path;
	attempt->dir = path;
	attempt->data = zklock_nodedata_self();
	attempt->tag = zklock_session_new_tag();
	attempt->session = zklock_session_current();
	attempt->connects = zklock_session_status()->connects;
	attempt->refused = NULL;
	attempt->nearest = NULL;
	attempt->shown = false;
	return new_prefix();
}

void
zklock_attempt_begin(ZkLockAttempt *attempt, ZkLockMode mode, const char *path,
					 bool nowait)
{
	const char *prefix = prepare(attempt, path);
	const char *name = NULL;
	ZkLockActions actions;

	if (mode == ZKLOCK_SIMPLE)
	{
		char	   *dir = pstrdup(path);
		char	   *slash = strrchr(dir, '/');

		*slash = '\0';
		attempt->dir = dir;
		name = slash + 1;
		if (strlen(name) >= ZKLOCK_NAME_SIZE)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the last part of a simple lock's path is longer than %d bytes",
							ZKLOCK_NAME_SIZE - 1)));

		/* The name is everybody's: this tells ours. */
		attempt->data = psprintf("%s id=%s", attempt->data, prefix);
		attempt->node = zklock_zkclient_named_node(zklock_session_client(),
												   dir, name, prefix);
	}
	else
		attempt->node = zklock_zkclient_node(zklock_session_client(), path,
											 prefix, zklock_recipe_marker(mode));
	if (attempt->node == NULL)
		zklock_errors_too_much();
	zklock_recipe_begin(&attempt->recipe, mode, name, prefix,
						zklock_session_status()->session, nowait, &actions);
	perform(attempt, &actions);
}

void
zklock_attempt_begin_lease(ZkLockAttempt *attempt, const char *path,
						   const char *dir, int leases, bool nowait)
{
	const char *prefix = prepare(attempt, path);
	ZkLockActions actions;

	attempt->dir = dir;
	attempt->node = zklock_zkclient_node(zklock_session_client(), dir, prefix,
										 zklock_recipe_marker(ZKLOCK_SEMAPHORE));
	if (attempt->node == NULL)
		zklock_errors_too_much();
	zklock_recipe_begin_lease(&attempt->recipe, leases, prefix,
							  zklock_session_status()->session, nowait,
							  &actions);
	perform(attempt, &actions);
}

void
zklock_attempt_begin_downgrade(ZkLockAttempt *attempt, const char *path,
							   const char *from)
{
	const char *prefix = prepare(attempt, path);
	ZkLockActions actions;

	zklock_recipe_begin_downgrade(&attempt->recipe, from, prefix,
								  zklock_session_status()->session, &actions);
	attempt->node = zklock_zkclient_named_node(zklock_session_client(), path,
											   attempt->recipe.name, prefix);
	if (attempt->node == NULL)
		zklock_errors_too_much();
	perform(attempt, &actions);
}

/*
 * A grant needs none of this: what was watched has gone.  Nor does a semaphore:
 * our own node goes, which the watch on its neighbours tells of.
 */
static void
unwatch(const ZkLockAttempt *attempt, const ZkLockWatch *slot)
{
	if (attempt->recipe.verdict != ZKLOCK_GRANTED && slot->name[0] != '\0')
		zklock_zkclient_unwatch(zklock_session_client(), attempt->dir, slot->name);
}

void
zklock_attempt_abandon(ZkLockAttempt *attempt)
{
	if (attempt->node != NULL && zklock_session_is_current(attempt->session))
	{
		zklock_zkclient_leave(attempt->node);
		unwatch(attempt, &attempt->recipe.nearest);
		unwatch(attempt, &attempt->recipe.lookahead);
	}
	if (attempt->node != NULL)
		zklock_claims_queued(attempt->claim, "");
	attempt->node = NULL;
}

void
zklock_attempt_raise(const ZkLockAttempt *attempt)
{
	char	   *path;

	if (attempt->path == NULL)
		return;					/* not begun */
	path = zklock_errors_path(attempt->path);

	switch (attempt->recipe.verdict)
	{
		case ZKLOCK_DENIED:
			zklock_errors_refused(attempt->path, "lock", attempt->refused,
								  zklock_session_identity(), attempt->rc,
								  attempt->code);
			break;
		case ZKLOCK_NO_ROOT:
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("could not create lock path \"%s\" in ZooKeeper",
							path),
					 errhint("The path at the end of zklock.hosts must exist.")));
			break;
		case ZKLOCK_NOT_A_QUEUE:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" cannot be used as a lock path", path),
					 errdetail("It is, or is below, an ephemeral node, which cannot have children."),
					 errhint("A path that is used with mode \"simple\" takes no other mode; otherwise use another path.")));
			break;
		case ZKLOCK_NOT_SIMPLE:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("\"%s\" cannot be used as a simple lock", path),
					 errdetail("It is a node that stays: a path of locks of other modes, or of other data."),
					 errhint("Use another path, or mode \"exclusive\".")));
			break;
		case ZKLOCK_NO_GROUND:
			zklock_errors_lock_lost(attempt->path,
									"Its node in ZooKeeper is gone.");
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
