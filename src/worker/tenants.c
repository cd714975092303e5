/*-------------------------------------------------------------------------
 *
 * tenants.c
 *	  The attempts that the worker runs for backends.  See tenants.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/driver.h"
#include "backend/session.h"
#include "backend/venue.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "shared/places.h"
#include "shared/tenure.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "worker/tenants.h"

typedef struct Tenant
{
	ZkLockPlace *place;			/* dynahash: must be first */
	uint64		serial;			/* of the attempt, see places.h */
	uint32		generation;		/* that it is of */
	MemoryContext context;		/* of the attempt */
	ZkLockDriver driver;
	dlist_node	link;			/* in `pending` or `settled` */
	uint32		question;		/* that is being asked; 0: none */
	uintptr_t	asked;			/* its tag */

	/* what was reported last */
	ZkLockVerdict verdict;
	bool		queued;
	int			ahead;
	const char *nearest;
	uint32		revocations;
} Tenant;

/* Whose a tag is, but for its lower half */
typedef struct Tag
{
	uintptr_t	tag;			/* dynahash: must be first */
	Tenant	   *tenant;
} Tag;

static HTAB *tenants = NULL;
static HTAB *tags = NULL;

/* Those that go on, and those that have their verdict */
static dlist_head pending = DLIST_STATIC_INIT(pending);
static dlist_head settled = DLIST_STATIC_INIT(settled);

/* The request under way that is to confirm the session, and when it was made. */
static uintptr_t lease_tag = 0;
static int64 lease_asked_at = 0;

void
zklock_tenants_init(void)
{
	HASHCTL		ctl = {0};

	ctl.keysize = sizeof(ZkLockPlace *);
	ctl.entrysize = sizeof(Tenant);
	tenants = hash_create("zklock tenants", 256, &ctl, HASH_ELEM | HASH_BLOBS);
	ctl.keysize = sizeof(uintptr_t);
	ctl.entrysize = sizeof(Tag);
	tags = hash_create("zklock tags", 256, &ctl, HASH_ELEM | HASH_BLOBS);
}

static void
register_tag(uintptr_t tag, Tenant *tenant)
{
	Tag		   *entry = hash_search(tags, &tag, HASH_ENTER, NULL);

	entry->tenant = tenant;
}

static void
forget_tag(uintptr_t tag)
{
	(void) hash_search(tags, &tag, HASH_REMOVE, NULL);
}

static bool
is_watched_by(const dlist_head *some, const char *path)
{
	dlist_iter	iter;

	dlist_foreach(iter, unconstify(dlist_head *, some))
	{
		Tenant	   *tenant = dlist_container(Tenant, link, iter.cur);

		if (zklock_driver_is_watching(&tenant->driver, path))
			return true;
	}
	return false;
}

/* Does any of the attempts wait for news of this node, or heed it? */
static bool
is_watched(const char *path)
{
	return is_watched_by(&pending, path) || is_watched_by(&settled, path);
}

static void
remove_tenant(Tenant *tenant)
{
	MemoryContext context = tenant->context;

	dlist_delete(&tenant->link);
	zklock_driver_abandon(&tenant->driver);
	forget_tag(tenant->driver.tag);
	if (tenant->question != 0)
		forget_tag(tenant->asked);
	(void) hash_search(tenants, &tenant->place, HASH_REMOVE, NULL);
	MemoryContextDelete(context);
}

/* Tell the place how it stands, if that is news. */
static void
report(Tenant *tenant)
{
	const ZkLockDriver *driver = &tenant->driver;
	const ZkLockRecipe *r = &driver->recipe;
	ZkLockReport report = {
		.verdict = r->verdict,
		.queued = r->queued,
		.ahead = r->ahead,
		.named = r->named,
		.name = r->name,
		.seq = r->seq,
		.token = r->token,
		.other = driver->nearest != NULL ? r->nearest.name : NULL,
		.text = driver->refused != NULL ? driver->refused : driver->nearest,
		.rc = driver->rc,
		.code = driver->code
	};

	if (tenant->verdict == r->verdict && tenant->queued == r->queued &&
		tenant->ahead == r->ahead && tenant->nearest == driver->nearest)
		return;
	tenant->verdict = r->verdict;
	tenant->queued = r->queued;
	tenant->ahead = r->ahead;
	tenant->nearest = driver->nearest;
	if (r->verdict != ZKLOCK_PENDING)
	{
		dlist_delete(&tenant->link);
		dlist_push_tail(&settled, &tenant->link);
	}
	zklock_places_report(tenant->place, tenant->serial, tenant->generation,
						 &report, zklock_zkclient_now());
}

/*
 * Do something for one of them, in its memory.  If it raises an error, that is in
 * the server's log, and the attempt has failed.
 */
static void
attend(Tenant *tenant, void (*step) (Tenant *tenant, const void *arg),
	   const void *arg)
{
	MemoryContext before = MemoryContextSwitchTo(tenant->context);

	PG_TRY();
	{
		step(tenant, arg);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(before);
		EmitErrorReport();
		FlushErrorState();

		/*
		 * ZooKeeper has denied nothing: the backend knows this by the code.  What
		 * has been granted is, whatever news could not be taken in.
		 */
		if (tenant->verdict == ZKLOCK_PENDING)
		{
			tenant->driver.recipe.verdict = ZKLOCK_DENIED;
			tenant->driver.rc = ZKLOCK_RC_OK;
		}
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
	report(tenant);
}

static void
take(Tenant *tenant, const void *message)
{
	zklock_driver_take(&tenant->driver, message);
}

static void
take_watch(Tenant *tenant, const void *message)
{
	zklock_driver_take_watch(&tenant->driver, message);
}

static void
disregard(Tenant *tenant, const void *arg)
{
	(void) arg;
	zklock_driver_disregard(&tenant->driver);
}

static void
look(Tenant *tenant, const void *arg)
{
	(void) arg;
	zklock_driver_look(&tenant->driver);
}

static void
begin(Tenant *tenant, const void *arg)
{
	const ZkLockRequest *request = arg;
	ZkLockOrder order = {
		.mode = request->mode,
		.path = pstrdup(request->path),
		.nowait = request->nowait,
		.curious = request->curious,
		.leases = request->leases,
		.count = request->count[0] != '\0' ? pstrdup(request->count) : NULL,
		.from = request->from[0] != '\0' ? pstrdup(request->from) : NULL,
		.revocable = request->revocable
	};

	zklock_driver_begin(&tenant->driver, &order, pstrdup(request->data),
						is_watched);
	register_tag(tenant->driver.tag, tenant);
}

/* All that go on; a step may end one. */
static void
attend_all(void (*step) (Tenant *tenant, const void *arg), const void *arg)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pending)
		attend(dlist_container(Tenant, link, iter.cur), step, arg);
}

/* A question has been answered: is the node there? */
static void
answer(Tenant *tenant, const ZkLockMessage *message)
{
	zklock_places_answer(tenant->place, tenant->serial, tenant->question,
						 message->rc == ZKLOCK_RC_OK ? ZKLOCK_ANSWER_HELD :
						 message->rc == ZKLOCK_RC_NO_NODE ? ZKLOCK_ANSWER_GONE :
						 ZKLOCK_ANSWER_NONE);
	tenant->question = 0;
	forget_tag(message->tag);
	if (message->rc == ZKLOCK_RC_NO_NODE)
		zklock_places_robbed(tenant->place, tenant->serial);
}

static void
deliver(const ZkLockMessage *message)
{
	uintptr_t	tag = message->tag & ~ZKLOCK_TAG_MASK;
	Tag		   *whose = tag == 0 ? NULL : hash_search(tags, &tag, HASH_FIND, NULL);

	if (tag != 0 && tag == lease_tag)
		lease_tag = 0;
	else if (message->kind == ZKLOCK_MSG_DELETED ||
			 message->kind == ZKLOCK_MSG_CHANGED)
		attend_all(take_watch, message);
	else if (whose != NULL && tag == whose->tenant->asked)
		answer(whose->tenant, message);
	else if (whose != NULL)
		attend(whose->tenant, take, message);
}

void
zklock_tenants_deliver(ZkLockMessage *messages, bool stale)
{
	const ZkLockClientStatus *status = zklock_session_status();

	while (messages != NULL)
	{
		ZkLockMessage *message = messages;

		messages = message->next;
		if (!stale || message->kind == ZKLOCK_MSG_CONFIRMED)
			deliver(message);
		zklock_zkclient_free(message);
	}
	if (stale)
		attend_all(disregard, NULL);
	if (status == NULL)
		return;
	if (status->state != ZKLOCK_CLIENT_CONNECTED)
		lease_tag = 0;
	attend_all(look, NULL);
}

static void
begin_tenant(ZkLockPlace *place, const ZkLockRequest *request)
{
	static MemoryContext spare = NULL;	/* if there was no memory for the rest */
	Tenant	   *tenant;

	if (spare == NULL)
		spare = AllocSetContextCreate(TopMemoryContext, "zklock tenant",
									  ALLOCSET_SMALL_SIZES);
	tenant = hash_search(tenants, &place, HASH_ENTER, NULL);
	memset((char *) tenant + sizeof(ZkLockPlace *), 0,
		   sizeof(Tenant) - sizeof(ZkLockPlace *));
	tenant->serial = request->wanted;
	tenant->generation = request->generation;
	tenant->context = spare;
	spare = NULL;
	dlist_push_tail(&pending, &tenant->link);
	attend(tenant, begin, request);
}

static void
ask(Tenant *tenant, uint32 question)
{
	uintptr_t	tag = zklock_session_new_tag();

	register_tag(tag, tenant);
	tenant->asked = tag;
	tenant->question = question;
	if (!zklock_zkclient_confirm(tenant->driver.node, tenant->asked))
	{
		ZkLockMessage none = {.tag = tenant->asked,.rc = ZKLOCK_RC_LOST};

		answer(tenant, &none);
	}
}

/* What is wanted at the place that is being served. */
static ZkLockRequest request;

/* Can it be done now?  Else it is to be looked at again. */
static bool
serve(ZkLockPlace *place, bool is_session)
{
	Tenant	   *tenant;

	if (!zklock_places_read(place, &request))
		return true;
	tenant = hash_search(tenants, &place, HASH_FIND, NULL);

	if (request.wanted == request.had)
	{
		if (request.asked != 0 && tenant != NULL && tenant->question == 0 &&
			tenant->driver.node != NULL)
			ask(tenant, request.asked);
		return true;
	}
	if (tenant != NULL)
	{
		/* It cannot be deleted yet, and whoever came next would find it ahead. */
		if (zklock_driver_is_creating(&tenant->driver))
			return false;
		remove_tenant(tenant);
		zklock_places_drop(place);
	}
	if (request.wanted == 0)
	{
		if (tenant == NULL)
			zklock_places_drop(place);
		return true;
	}
	if (request.generation != zklock_tenure_generation())
	{
		ZkLockReport expired = {.verdict = ZKLOCK_EXPIRED,.name = ""};

		if (zklock_places_take(place, request.wanted))
			zklock_places_report(place, request.wanted, request.generation,
								 &expired, zklock_zkclient_now());
		return true;
	}
	if (!is_session || !zklock_zkclient_has_room(zklock_session_client()))
		return false;
	if (zklock_places_take(place, request.wanted))
		begin_tenant(place, &request);
	return true;
}

/*
 * The same, but if there is no memory for it, that is this place's failure only.
 * A question that could not be asked is not answered in time.
 */
static bool
try_to_serve(ZkLockPlace *place, bool is_session)
{
	MemoryContext before = CurrentMemoryContext;
	volatile bool done = true;

	PG_TRY();
	{
		done = serve(place, is_session);
	}
	PG_CATCH();
	{
		ZkLockReport denied = {.verdict = ZKLOCK_DENIED,.name = ""};

		MemoryContextSwitchTo(before);
		EmitErrorReport();
		FlushErrorState();
		if (request.wanted != request.had)
			zklock_places_report(place, request.wanted, request.generation,
								 &denied, zklock_zkclient_now());
	}
	PG_END_TRY();
	return done;
}

void
zklock_tenants_serve(bool is_session)
{
	ZkLockPlace *postponed = NULL;	/* the first of them */
	ZkLockPlace *place;

	while ((place = zklock_places_next()) != NULL)
	{
		if (place != postponed && try_to_serve(place, is_session))
			continue;
		zklock_places_post(place);
		if (place == postponed)
			break;
		if (postponed == NULL)
			postponed = place;
	}
}

/* A node of ours that is there, for all that is known; or NULL. */
static Tenant *
any_tenant(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &settled)
	{
		Tenant	   *tenant = dlist_container(Tenant, link, iter.cur);

		if (tenant->verdict == ZKLOCK_GRANTED)
			return tenant;
	}
	dlist_foreach(iter, &pending)
	{
		Tenant	   *tenant = dlist_container(Tenant, link, iter.cur);

		if (tenant->driver.recipe.token != 0)
			return tenant;
	}
	return NULL;
}

void
zklock_tenants_renew_lease(void)
{
	const ZkLockClientStatus *status = zklock_session_status();
	int64		now = zklock_zkclient_now();
	Tenant	   *tenant;

	if (status == NULL || status->state != ZKLOCK_CLIENT_CONNECTED ||
		lease_tag != 0 ||
		Max(status->confirmed, lease_asked_at) >
		now - zklock_session_lease() / 2)
		return;
	tenant = any_tenant();
	if (tenant == NULL || tenant->driver.node == NULL)
		return;
	lease_tag = zklock_session_new_tag();
	if (zklock_zkclient_confirm(tenant->driver.node, lease_tag))
		lease_asked_at = now;
	else
		lease_tag = 0;
}

void
zklock_tenants_pass_on_revocations(void)
{
	static uint32 passed_on = 0;
	const ZkLockClientStatus *status = zklock_session_status();
	dlist_iter	iter;

	if (status == NULL || status->revocations == passed_on)
		return;
	passed_on = status->revocations;
	dlist_foreach(iter, &settled)
	{
		Tenant	   *tenant = dlist_container(Tenant, link, iter.cur);
		uint32		revocations = tenant->verdict == ZKLOCK_GRANTED ?
			zklock_zkclient_revocations(tenant->driver.node) : 0;

		if (revocations == tenant->revocations)
			continue;
		tenant->revocations = revocations;
		zklock_places_revoked(tenant->place, tenant->serial);
	}
}

void
zklock_tenants_evict(void)
{
	HASH_SEQ_STATUS scan;
	Tenant	   *tenant;

	hash_seq_init(&scan, tenants);
	while ((tenant = hash_seq_search(&scan)) != NULL)
	{
		MemoryContext context = tenant->context;

		forget_tag(tenant->driver.tag);
		if (tenant->question != 0)
			forget_tag(tenant->asked);
		(void) hash_search(tenants, &tenant->place, HASH_REMOVE, NULL);
		MemoryContextDelete(context);
	}
	dlist_init(&pending);
	dlist_init(&settled);
	lease_tag = 0;
	lease_asked_at = 0;
}
