/*-------------------------------------------------------------------------
 *
 * driver.c
 *	  Runs one attempt to acquire a lock in this process's session.  See
 *	  driver.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "protocol/newpath.h"
#include "protocol/path.h"
#include "protocol/size.h"
#include "session/driver.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/newpaths.h"

/*
 * "_c_", a random UUID and "-": Curator's protected names.  The version of the UUID is
 * 8 if the node is marked: see contender.h.
 */
static const char *
new_prefix(bool marked)
{
	uint8		r[16];

	zklock_session_random(r, sizeof(r));
	r[6] = (r[6] & 0x0f) | (marked ? 0x80 : 0x40);
	r[8] = (r[8] & 0x3f) | 0x80;
	return psprintf("_c_%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x-",
					r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7],
					r[8], r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
}

static char *
child_path(const ZkLockDriver *driver, const char *name)
{
	return psprintf("%s/%s", driver->dir, name);
}

static const ZkLockModeRow *
mode_of(const ZkLockDriver *driver)
{
	return &zklock_mode_table[driver->recipe.params.mode];
}

/* Delete a second node with our prefix, which only a fault can have created. */
static void
delete_surplus(ZkLockDriver *driver, const char *name)
{
	ZkLockNode *node = zklock_zkclient_node(zklock_session_client(),
											driver->owner, driver->dir,
											driver->recipe.prefix,
											mode_of(driver)->marker);

	if (node == NULL)
		zklock_errors_too_many_requests();
	if (!zklock_zkclient_adopt(node, name))
	{
		zklock_zkclient_delete(node);
		zklock_errors_too_many_requests();
	}
	zklock_zkclient_delete(node);
}

static void
perform(ZkLockDriver *driver, const ZkLockActions *actions)
{
	ZkLockClient *client = zklock_session_client();

	for (int i = 0; i < actions->n; i++)
	{
		const ZkLockAction *action = &actions->act[i];
		ZkLockTag	tag = {driver->requester, action->request};
		bool		accepted = true;

		switch (action->kind)
		{
			case ZKLOCK_DO_MAKE_PARENT:
			case ZKLOCK_DO_MAKE_PARENTS:
				accepted = zklock_zkclient_create_path(client, driver->dir,
													   driver->size,
													   (int) strlen(driver->size),
													   action->kind == ZKLOCK_DO_MAKE_PARENTS,
													   false, tag);
				break;
			case ZKLOCK_DO_CREATE:
				accepted = zklock_zkclient_create(client, driver->node,
												  driver->data, tag);
				break;
			case ZKLOCK_DO_LIST:
				accepted = mode_of(driver)->has_permits ?
					zklock_zkclient_list(client, driver->dir, ZKLOCK_CHILDREN_ALL,
										 action->use, tag) :
					zklock_zkclient_list(client, driver->dir, ZKLOCK_CHILDREN_QUEUE,
										 ZKLOCK_WATCH_NONE, tag);
				break;
			case ZKLOCK_DO_VERIFY:
			case ZKLOCK_DO_WATCH:
				if (action->kind == ZKLOCK_DO_VERIFY && !driver->recipe.fixed &&
					!zklock_zkclient_adopt(driver->node, action->name))
					zklock_errors_too_many_requests();
				accepted = zklock_zkclient_get(client,
											   child_path(driver, action->name),
											   action->kind == ZKLOCK_DO_WATCH ?
											   action->use : ZKLOCK_WATCH_NONE,
											   tag);
				break;
			case ZKLOCK_DO_TOUCH:
				accepted = zklock_zkclient_set(client,
											   child_path(driver, action->name),
											   driver->data,
											   (int) strlen(driver->data), tag);
				break;
			case ZKLOCK_DO_SYNC:
				accepted = zklock_zkclient_sync(client, driver->path, tag);
				break;
			case ZKLOCK_DO_SIZE:
				accepted = driver->count != NULL ?
					zklock_zkclient_get(client, driver->count, action->use, tag) :
					zklock_zkclient_get(client, driver->dir,
										ZKLOCK_WATCH_NONE, tag);
				break;
			case ZKLOCK_DO_SET_SIZE:

				/*
				 * Nobody receives the reply.  The attempt does not depend on
				 * the permission to write to this node.
				 */
				tag.requester = zklock_session_new_requester();
				accepted = zklock_zkclient_set(client, driver->dir, driver->size,
											   (int) strlen(driver->size), tag);
				break;
			case ZKLOCK_DO_DROP:
				delete_surplus(driver, action->name);
				break;
			case ZKLOCK_DO_GRANT:
			case ZKLOCK_DO_FAIL:
				break;			/* the verdict is the result */
		}
		if (!accepted)
			zklock_errors_too_many_requests();
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

			/* It does not matter who has created a parent. */
			return message->kind == ZKLOCK_MSG_PARENTS_MADE ?
				ZKLOCK_OK : ZKLOCK_NODE_EXISTS;
		case ZKLOCK_RC_NO_NODE:
			return ZKLOCK_NO_NODE;
		case ZKLOCK_RC_NO_CHILDREN:
			return ZKLOCK_NO_CHILDREN;
		case ZKLOCK_RC_LOST:
		case ZKLOCK_RC_OVER:
			return ZKLOCK_LOST;
		case ZKLOCK_RC_TOO_MANY_WATCHES:
			return ZKLOCK_NOT_WATCHED;
		default:
			return ZKLOCK_REFUSED;
	}
}

static bool
is_of_watch(const ZkLockDriver *driver, uint32 request)
{
	return request != 0 && (request == driver->recipe.nearest.request ||
							request == driver->recipe.lookahead.request);
}

/* Other nodes may be watched now. */
static void
forget_ahead(ZkLockDriver *driver)
{
	for (int i = 0; i < 2; i++)
		if (driver->ahead[i].request != 0 && !is_of_watch(driver, driver->ahead[i].request))
		{
			pfree(driver->ahead[i].data);
			driver->ahead[i].request = 0;
		}
}

static void
unwatch(const ZkLockDriver *driver, const char *path, bool of_children)
{
	if (driver->is_needed == NULL || !driver->is_needed(driver, path))
		zklock_zkclient_unwatch(zklock_session_client(), path, of_children);
}

/*
 * The attempt is over, so changes of the count no longer concern it.  It may be watched
 * whether it could be read or not.
 */
static void
unwatch_count(ZkLockDriver *driver)
{
	const char *count = driver->count;

	driver->count = NULL;
	if (count != NULL && zklock_session_is_current(driver->generation))
		unwatch(driver, count, false);
}

static void
unwatch_slot(const ZkLockDriver *driver, const ZkLockWatch *slot)
{
	char		path[ZKLOCK_DRIVER_PATH];

	if (slot->name[0] == '\0')
		return;
	snprintf(path, sizeof(path), "%s/%s", driver->dir, slot->name);
	unwatch(driver, path, false);
}

/*
 * Remove the watches that the recipe does not have any more.  Mostly the one that the event
 * concerns has fired, or there is none.  But if it was refused, another attempt may have got it
 * after that, and may have left it to this one, which did not know of the refusal yet.
 */
static void
unwatch_former(const ZkLockDriver *driver, const ZkLockWatch *former)
{
	const ZkLockRecipe *r = &driver->recipe;

	for (int i = 0; i < 2; i++)
		if (strcmp(former[i].name, r->nearest.name) != 0 &&
			strcmp(former[i].name, r->lookahead.name) != 0)
			unwatch_slot(driver, &former[i]);
}

static bool
creates_parents(const ZkLockActions *actions)
{
	return actions->n > 0 && (actions->act[0].kind == ZKLOCK_DO_MAKE_PARENT ||
							  actions->act[0].kind == ZKLOCK_DO_MAKE_PARENTS);
}

/*
 * Perform the actions, but keep those that create parents, and all after them: the order
 * of the requests matters.  After them come at most those of one change of a count, since
 * all else that happens follows a reply, or ends this step.
 */
static void
perform_in_order(ZkLockDriver *driver, const ZkLockActions *actions)
{
	ZkLockActions *later = &driver->later;

	if (driver->recipe.outcome.verdict != ZKLOCK_PENDING)
		later->n = 0;
	if (later->n == 0 && !creates_parents(actions))
	{
		perform(driver, actions);
		return;
	}
	Assert(later->n + actions->n <= ZKLOCK_MAX_ACTIONS);
	memcpy(&later->act[later->n], actions->act, actions->n * sizeof(ZkLockAction));
	later->n += actions->n;
}

static void
feed(ZkLockDriver *driver, const ZkLockEvent *event)
{
	const ZkLockWatch former[2] = {driver->recipe.nearest, driver->recipe.lookahead};
	ZkLockActions actions;
	bool		is_pending = driver->recipe.outcome.verdict == ZKLOCK_PENDING;

	zklock_recipe_feed(&driver->recipe, event, &actions);
	unwatch_former(driver, former);
	forget_ahead(driver);

	/*
	 * An attempt that had to wait is late for that reason until it has its
	 * node, or begins anew: also while its parents are requested, or if more
	 * turn out to be missing.
	 */
	driver->recipe.outcome.paced &= driver->recipe.create != 0;
	perform_in_order(driver, &actions);
	if (is_pending && driver->recipe.outcome.verdict == ZKLOCK_GRANTED)
	{
		if (driver->recipe.params.revocable)
			zklock_zkclient_watch_revocation(driver->node, driver->data);

		/* A simple lock's node that was read, not created, is watched. */
		if (driver->recipe.fixed && driver->recipe.nearest.request != 0)
			unwatch_slot(driver, &driver->recipe.nearest);
		unwatch_count(driver);
	}
}

static void
feed_simple(ZkLockDriver *driver, ZkLockEventKind kind)
{
	ZkLockEvent event = {.kind = kind};

	driver->later.n = 0;		/* the recipe begins anew, or ends */
	feed(driver, &event);
}

static bool
ends_with(const char *s, const char *end)
{
	size_t		len = strlen(s);
	size_t		endlen = strlen(end);

	return len >= endlen && strcmp(s + len - endlen, end) == 0;
}

/*
 * The ancestor of our node, or the node itself, `depth` levels below the root
 */
static char *
ancestor(const ZkLockDriver *driver, int depth)
{
	char	   *path = pstrdup(driver->dir);
	char	   *end = path;

	while (depth-- > 0 && end != NULL)
		end = strchr(end + 1, '/');
	if (end != NULL)
		*end = '\0';
	return path;
}

/* The name of the node whose data this request reads */
static const char *
requested_name(const ZkLockRecipe *r, uint32 request)
{
	return request == r->nearest.request ? r->nearest.name :
		request == r->lookahead.request ? r->lookahead.name : r->outcome.name;
}

/* Describes the request that was refused, palloc'd. */
static char *
describe_request(const ZkLockDriver *driver, const ZkLockMessage *message)
{
	const ZkLockRecipe *r = &driver->recipe;
	uint32		request = message->tag.request;

	switch (message->kind)
	{
		case ZKLOCK_MSG_PARENTS_MADE:
			return psprintf("create \"%s\"", ancestor(driver, message->depth));
		case ZKLOCK_MSG_CREATED:
			return r->fixed ?
				psprintf("create \"%s\"", child_path(driver, r->outcome.name)) :
				psprintf("create a node below \"%s\"", driver->dir);
		case ZKLOCK_MSG_LISTED:
			return psprintf("list the children of \"%s\"", driver->dir);
		case ZKLOCK_MSG_GOT:
			return psprintf("read \"%s\"",
							request == r->size ? driver->count :
							child_path(driver, requested_name(r, request)));
		case ZKLOCK_MSG_SET:
			return psprintf("write to \"%s\"", child_path(driver, r->touched));
		default:
			return psprintf("look at \"%s\"", driver->dir);
	}
}

/*
 * Keep the data of the nearest node ahead, for messages, and that of the second, which is
 * not read again when it becomes the nearest one.
 */
static void
keep_ahead(ZkLockDriver *driver, const ZkLockMessage *message)
{
	int			i = driver->ahead[0].request != 0;

	Assert(driver->ahead[i].request == 0);
	driver->ahead[i].data = pnstrdup(message->text != NULL ? message->text : "", ZKLOCK_MAX_DATA);
	driver->ahead[i].request = message->tag.request;
}

/* If the nearest one has gone, the recipe may know the other one, and not list again. */
const char *
zklock_driver_nearest(const ZkLockDriver *driver, const char **data)
{
	const ZkLockRecipe *r = &driver->recipe;
	const ZkLockWatch *watch = r->nearest.request != 0 ? &r->nearest : &r->lookahead;

	for (int i = 0; i < 2; i++)
		if (driver->ahead[i].request != 0 && driver->ahead[i].request == watch->request)
		{
			*data = driver->ahead[i].data;
			return watch->name;
		}
	*data = NULL;
	return NULL;
}

/*
 * The number of leases in a node's data.  Data that was truncated is not a
 * number.
 */
static int
read_size(const ZkLockDriver *driver, const ZkLockMessage *message)
{
	int			count;

	if (message->length > ZKLOCK_MAX_DATA ||
		(message->text == NULL && message->length > 0))
		return ZKLOCK_SIZE_OTHER;
	if (!driver->recipe.counted)
		return zklock_size_read(message->text, message->length);
	return zklock_size_read_count(message->text, message->length, &count) &&
		count >= 0 ? count : ZKLOCK_SIZE_OTHER;
}

/*
 * The number of containers that the present step creates.  None, if the client will refuse
 * it, which the recipe must be told in its order.
 */
static int
count_parents(const ZkLockDriver *driver)
{
	int			parts = zklock_newpath_parts(driver->dir);

	return parts > ZKLOCK_NEWPATH_PARTS ? 0 :
		driver->later.act[0].kind == ZKLOCK_DO_MAKE_PARENT ? 1 : parts;
}

bool
zklock_driver_wants_parents(const ZkLockDriver *driver)
{
	return driver->later.n > 0 && driver->recipe.outcome.verdict == ZKLOCK_PENDING;
}

bool
zklock_driver_create_parents(ZkLockDriver *driver, Oid role, int64 now)
{
	ZkLockActions actions = driver->later;
	int			n = count_parents(driver);

	Assert(zklock_driver_wants_parents(driver));
	if (!zklock_zkclient_has_room(zklock_session_client()))
		return false;
	if (!zklock_newpaths_take(role, n, now))
	{
		driver->recipe.outcome.paced = true;
		driver->recipe.outcome.parents_at = 0;
		return false;
	}
	if (driver->recipe.outcome.paced)
		driver->recipe.outcome.parents_at = now;
	driver->creator = role;
	driver->nparents = n;
	driver->later.n = 0;
	perform(driver, &actions);
	return true;
}

/* Some parents existed, or were refused.  If the reply is lost, all may have been created. */
static void
process_parents(ZkLockDriver *driver, const ZkLockMessage *message)
{
	if (message->tag.request != driver->recipe.parents)
		return;
	if (message->rc != ZKLOCK_RC_LOST && message->rc != ZKLOCK_RC_OVER)
		zklock_newpaths_give_back(driver->creator, driver->nparents - message->made);
}

void
zklock_driver_process_reply(ZkLockDriver *driver, const ZkLockMessage *message)
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

	Assert(message->tag.requester == driver->requester);
	event.request = message->tag.request;
	event.kind = kinds[message->kind];
	if (message->kind == ZKLOCK_MSG_GOT &&
		event.request == driver->recipe.size)
	{
		event.kind = ZKLOCK_EV_SIZED;
		event.size = read_size(driver, message);
	}
	else if (message->kind == ZKLOCK_MSG_GOT &&
			 event.request == driver->recipe.verify)
		event.kind = ZKLOCK_EV_VERIFIED;
	else if (message->kind == ZKLOCK_MSG_GOT &&
			 is_of_watch(driver, event.request))
		keep_ahead(driver, message);
	event.reply = reply_of(message);
	event.name = message->text;
	event.czxid = message->czxid;
	event.owner = message->owner;
	event.version = message->version;
	event.has_prefix = message->text != NULL &&
		ends_with(message->text, driver->recipe.prefix);
	event.children = message->children;
	event.nchildren = message->nchildren;

	if (message->kind == ZKLOCK_MSG_PARENTS_MADE)
		process_parents(driver, message);
	if (event.reply == ZKLOCK_REFUSED && driver->refused == NULL &&
		(event.kind != ZKLOCK_EV_SIZED || driver->recipe.counted))
	{
		driver->refused = describe_request(driver, message);
		driver->recipe.outcome.rc = message->rc;
		driver->recipe.outcome.code = message->code;
	}
	feed(driver, &event);
}

void
zklock_driver_check_session(ZkLockDriver *driver)
{
	const ZkLockClientStatus *status = zklock_session_status();

	if (!zklock_session_is_current(driver->generation))
		feed_simple(driver, ZKLOCK_EV_EXPIRED);
	else if (status->state == ZKLOCK_CLIENT_CONNECTED &&
			 (status->connects != driver->connects || driver->recipe.stalled))
	{
		driver->connects = status->connects;
		feed_simple(driver, ZKLOCK_EV_CONNECTED);
	}
}

/* Is this the path that `slot` watches? */
static bool
is_watched(const ZkLockDriver *driver, const ZkLockWatch *slot,
		   const char *path)
{
	size_t		len = strlen(driver->dir);

	if (slot->request == 0 || strncmp(path, driver->dir, len) != 0)
		return false;
	path += len;
	return *path == '/' ? strcmp(path + 1, slot->name) == 0 :
		*path == '\0' && slot->name[0] == '\0';
}

void
zklock_driver_process_event(ZkLockDriver *driver, const ZkLockMessage *message)
{
	const ZkLockRecipe *r = &driver->recipe;
	ZkLockEvent event = {0};

	/*
	 * The count is processed even after a reconnection.  Otherwise a new list
	 * could be compared with the count that was read over the previous
	 * connection.
	 */
	if (driver->count != NULL && r->count != 0 &&
		strcmp(message->text, driver->count) == 0)
		event.request = r->count;

	/*
	 * Other events are ignored after a reconnection.  Events of that time are
	 * incomplete: for a node that was changed and then deleted, only the
	 * deletion is reported.  The recipe reads its state again as soon as it
	 * learns of the connection.
	 */
	else if (driver->connects != zklock_session_status()->connects)
		return;
	else if (is_watched(driver, &r->nearest, message->text))
		event.request = r->nearest.request;
	else if (is_watched(driver, &r->lookahead, message->text))
		event.request = r->lookahead.request;
	else
		return;
	event.kind = message->kind == ZKLOCK_MSG_DELETED ?
		ZKLOCK_EV_DELETED : ZKLOCK_EV_CHANGED;
	feed(driver, &event);
}


void
zklock_driver_reread(ZkLockDriver *driver)
{
	driver->connects = 0;
}

void
zklock_driver_time_out(ZkLockDriver *driver)
{
	feed_simple(driver, ZKLOCK_EV_DEADLINE);
}

/* The node of a simple lock, whose parent and name are its path */
static ZkLockNode *
simple_node(ZkLockDriver *driver, const char *prefix, const char **name)
{
	char	   *dir = pstrdup(driver->path);
	char	   *slash = strrchr(dir, '/');

	*slash = '\0';
	driver->dir = dir;
	*name = slash + 1;

	/* All clients use the same name.  The id identifies our node. */
	driver->data = psprintf("%s id=%s", driver->data, prefix);
	return zklock_zkclient_named_node(zklock_session_client(), driver->owner, dir,
									  *name, prefix);
}

ZkLockRoom
zklock_driver_room(const ZkLockRequest *request, uint32 owner)
{
	const ZkLockModeRow *mode = &zklock_mode_table[request->params.mode];
	size_t		len = strlen(request->path);

	if (mode->dir != NULL)
		len += 1 + strlen(mode->dir);
	if (mode->marker != NULL)
		len += 1 + ZKLOCK_PREFIX_LEN + strlen(mode->marker) + ZKLOCK_MAX_DIGITS;
	return zklock_session_room(ZKLOCK_NODE_LOCK, owner, len);
}

/* Simple locks and downgrades list nothing. */
bool
zklock_driver_may_begin(const ZkLockRequest *request)
{
	const ZkLockModeRow *mode = &zklock_mode_table[request->params.mode];
	char		dir[ZKLOCK_PATH_SIZE];

	if (mode->marker == NULL || request->from != NULL)
		return true;
	snprintf(dir, sizeof(dir), "%s%s%s", request->path, mode->dir != NULL ? "/" : "",
			 mode->dir != NULL ? mode->dir : "");
	return zklock_zkclient_may_list(zklock_session_client(), dir);
}

void
zklock_driver_begin(ZkLockDriver *driver, uint32 owner, const ZkLockRequest *request,
					const char *data, ZkLockIsNeeded is_needed)
{
	const ZkLockParams *params = &request->params;
	const ZkLockModeRow *mode = &zklock_mode_table[params->mode];
	ZkLockRecipe *r = &driver->recipe;
	ZkLockClient *client = zklock_session_client();
	const char *prefix = new_prefix(params->marked);
	const char *name = NULL;
	int64		session = zklock_session_status()->session_id;
	ZkLockActions actions;

	Assert(client != NULL && session != 0);
	driver->path = driver->dir = request->path;
	driver->data = data;
	driver->size = "";
	driver->count = NULL;
	driver->is_needed = is_needed;
	driver->requester = zklock_session_new_requester();
	driver->owner = owner;
	driver->generation = zklock_session_generation();
	driver->connects = zklock_session_status()->connects;
	memset(driver->ahead, 0, sizeof(driver->ahead));
	driver->later.n = 0;
	driver->refused = NULL;

	if (mode->dir != NULL)
		driver->dir = psprintf("%s/%s", request->path, mode->dir);
	if (mode->has_permits)
	{
		driver->count = request->count;
		if (request->count == NULL)
			driver->size = psprintf("%d", params->permits);
	}

	if (request->from != NULL)
	{
		zklock_recipe_begin_downgrade(r, params, request->from, prefix,
									  session, &actions);
		driver->node = zklock_zkclient_named_node(client, owner, driver->dir,
												  r->outcome.name, prefix);
	}
	else
	{
		driver->node = mode->marker == NULL ?
			simple_node(driver, prefix, &name) :
			zklock_zkclient_node(client, owner, driver->dir, prefix, mode->marker);
		zklock_recipe_begin(r, params, name, prefix, session, &actions);
	}
	r->shared = is_needed != NULL;
	r->params.wants_holder &= r->shared;
	if (driver->node == NULL)
		zklock_errors_too_many_requests();
	if (params->revocable && !params->only_looks &&
		!zklock_zkclient_reserve_watch(driver->node))
		r->outcome.verdict = ZKLOCK_TOO_MANY_WATCHES;
	else
		perform(driver, &actions);
}

int
zklock_driver_creating(const ZkLockDriver *driver)
{
	const ZkLockRecipe *r = &driver->recipe;

	if (r->outcome.verdict != ZKLOCK_PENDING || driver->later.n > 0)
		return 0;
	return (r->create != 0 || (r->params.only_looks && r->sync != 0)) +
		(r->parents != 0 ? driver->nparents : 0);
}

bool
zklock_driver_is_watching(const ZkLockDriver *driver, const char *path)
{
	size_t		len = strlen(driver->dir);

	/*
	 * The request that sets the watch on the count, or on the leases, may
	 * still be under way, and a removal of the watch must not overtake it.
	 */
	if (driver->recipe.outcome.verdict == ZKLOCK_PENDING)
		return (driver->count != NULL && strcmp(path, driver->count) == 0) ||
			(mode_of(driver)->has_permits && strcmp(path, driver->dir) == 0) ||
			is_watched(driver, &driver->recipe.nearest, path) ||
			is_watched(driver, &driver->recipe.lookahead, path);
	return driver->recipe.outcome.verdict == ZKLOCK_GRANTED &&
		driver->recipe.params.revocable &&
		strncmp(path, driver->dir, len) == 0 && path[len] == '/' &&
		strcmp(path + len + 1, driver->recipe.outcome.name) == 0;
}

bool
zklock_driver_watched(const ZkLockDriver *driver, int i, char *path)
{
	const ZkLockRecipe *r = &driver->recipe;
	const ZkLockWatch *slots[] = {&r->nearest, &r->lookahead};
	bool		is_pending = r->outcome.verdict == ZKLOCK_PENDING;
	const char *name = NULL;

	if (i < (int) lengthof(slots) && is_pending &&
		(slots[i]->request != 0 || (i == 0 && mode_of(driver)->has_permits)))
		name = slots[i]->name;
	else if (i == (int) lengthof(slots) && is_pending && driver->count != NULL)
	{
		strlcpy(path, driver->count, ZKLOCK_DRIVER_PATH);
		return true;
	}
	else if (i == (int) lengthof(slots) && r->outcome.verdict == ZKLOCK_GRANTED &&
			 driver->recipe.params.revocable)
		name = r->outcome.name;
	if (name == NULL)
		return false;

	/* Without a name, the children are watched. */
	snprintf(path, ZKLOCK_DRIVER_PATH, "%s%s%s", driver->dir,
			 name[0] != '\0' ? "/" : "", name);
	return true;
}

void
zklock_driver_abandon(ZkLockDriver *driver)
{
	ZkLockNode *node = driver->node;

	driver->node = NULL;
	driver->later.n = 0;
	if (node == NULL || !zklock_session_is_current(driver->generation))
		return;
	zklock_zkclient_delete(node);

	/*
	 * After a grant, the nodes ahead are deleted already, and our node is
	 * among the watched children of a semaphore's: its deletion ends that
	 * watch.
	 */
	if (driver->recipe.outcome.verdict != ZKLOCK_GRANTED)
	{
		unwatch_slot(driver, &driver->recipe.nearest);
		unwatch_slot(driver, &driver->recipe.lookahead);
		if (mode_of(driver)->has_permits)
			unwatch(driver, driver->dir, true);
	}
	unwatch_count(driver);
}
