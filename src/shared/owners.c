/*-------------------------------------------------------------------------
 *
 * owners.c
 *	  The owners of the attempts that the server's worker runs.  See
 *	  owners.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "common/compat.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "shared/owners.h"
#include "shared/sessionstate.h"
#include "storage/shmem.h"
#include "storage/spin.h"

/* The least that zklock_owners_share() can be */
#define MIN_SHARE 16

/* The work of one owner in one queue */
typedef struct Lane
{
	dlist_head	work;
	dlist_node	turn;			/* in the queue's ring, if `in_turn` */
	bool		in_turn;
} Lane;

struct ZkLockOwner
{
	Oid			role;			/* the owning role; of a waiting backend: its
								 * login role */
	dlist_node	role_link;		/* in `roles` or `spare` */
	dlist_head	charges;
	int			ncharges;
	Lane		lane[ZKLOCK_WORK_QUEUES];

	/* of a waiting backend */
	dlist_node	wait_link;		/* in `waiting` */
	bool		waits;
	bool		woken;			/* was it woken up since its last check? */
	bool		for_room;
	int			at_most;		/* see zklock_owners_permit() */
};

/* The first owners are the backends, by number; the others are for roles. */
typedef struct Owners
{
	slock_t		mutex;			/* protects all the following fields */
	dlist_head	ring[ZKLOCK_WORK_QUEUES];	/* of lanes */
	dlist_head	waiting;		/* backends, in the order of their arrival */
	int			nfor_room;
	dlist_head	roles;			/* roles with charges */
	dlist_head	spare;
	int			ncharges;
	ZkLockOwner owner[FLEXIBLE_ARRAY_MEMBER];
} Owners;

static Owners *owners = NULL;

static int
max_owners(void)
{
	return 2 * zklock_compat_max_backends();
}

Size
zklock_owners_shmem_size(void)
{
	return add_size(offsetof(Owners, owner),
					mul_size(max_owners(), sizeof(ZkLockOwner)));
}

void
zklock_owners_shmem_init(void)
{
	bool		found;

	owners = ShmemInitStruct("zklock owners", zklock_owners_shmem_size(),
							 &found);
	if (found)
		return;
	memset(owners, 0, zklock_owners_shmem_size());
	SpinLockInit(&owners->mutex);
	for (int queue = 0; queue < ZKLOCK_WORK_QUEUES; queue++)
		dlist_init(&owners->ring[queue]);
	dlist_init(&owners->waiting);
	dlist_init(&owners->roles);
	dlist_init(&owners->spare);
	for (int i = 0; i < max_owners(); i++)
	{
		ZkLockOwner *owner = &owners->owner[i];

		dlist_init(&owner->charges);
		for (int queue = 0; queue < ZKLOCK_WORK_QUEUES; queue++)
			dlist_init(&owner->lane[queue].work);
		if (i >= zklock_compat_max_backends())
			dlist_push_tail(&owners->spare, &owner->role_link);
	}
}

static ZkLockOwner *
my_owner(void)
{
	Assert(zklock_compat_procno() < zklock_compat_max_backends());
	return &owners->owner[zklock_compat_procno()];
}

static bool
is_role(const ZkLockOwner *owner)
{
	return owner - owners->owner >= zklock_compat_max_backends();
}

/*
 * Find the owner of a role.  Returns NULL if nothing is charged to the role.
 */
static ZkLockOwner *
find_role(Oid role)
{
	dlist_iter	iter;

	dlist_foreach(iter, &owners->roles)
	{
		ZkLockOwner *owner = dlist_container(ZkLockOwner, role_link, iter.cur);

		if (owner->role == role)
			return owner;
	}
	return NULL;
}

/*
 * Find the owner of a role, or use a spare one.  Returns NULL if all are in
 * use.
 */
static ZkLockOwner *
use_role(Oid role)
{
	ZkLockOwner *owner = find_role(role);

	if (owner == NULL && !dlist_is_empty(&owners->spare))
	{
		owner = dlist_container(ZkLockOwner, role_link,
								dlist_pop_head_node(&owners->spare));
		Assert(is_role(owner) && owner->ncharges == 0);
		owner->role = role;
		dlist_push_tail(&owners->roles, &owner->role_link);
	}
	return owner;
}

static void
add_charge(ZkLockOwner *owner, ZkLockCharge *charge)
{
	charge->owner = owner;
	dlist_push_tail(&owner->charges, &charge->link);
	owner->ncharges++;
}

static void
remove_charge(ZkLockCharge *charge)
{
	dlist_delete(&charge->link);
	charge->owner->ncharges--;
	Assert((charge->owner->ncharges == 0) == dlist_is_empty(&charge->owner->charges));
}

void
zklock_owners_pass_to_role(void)
{
	ZkLockOwner *me = my_owner();
	ZkLockOwner *role;

	/* There may be many, so release the mutex after each one. */
	do
	{
		SpinLockAcquire(&owners->mutex);
		role = dlist_is_empty(&me->charges) ? NULL :
			use_role(GetAuthenticatedUserId());

		/*
		 * If all owners are in use, the next backend with our number inherits
		 * them.
		 */
		if (role != NULL)
		{
			ZkLockCharge *charge = dlist_head_element(ZkLockCharge, link,
													  &me->charges);

			Assert(charge->charged && charge->owner == me);
			remove_charge(charge);
			add_charge(role, charge);
		}
		SpinLockRelease(&owners->mutex);
	} while (role != NULL);
}

void
zklock_owners_charge(ZkLockCharge *charge)
{
	SpinLockAcquire(&owners->mutex);
	if (!charge->charged)
	{
		add_charge(charge->owner, charge);
		owners->ncharges++;
	}
	charge->charged = true;
	SpinLockRelease(&owners->mutex);
}

void
zklock_owners_discharge(ZkLockCharge *charge)
{
	SpinLockAcquire(&owners->mutex);
	if (charge->charged)
	{
		ZkLockOwner *owner = charge->owner;

		remove_charge(charge);
		owners->ncharges--;
		Assert(owners->ncharges >= owner->ncharges);
		if (is_role(owner) && owner->ncharges == 0)
		{
			dlist_delete(&owner->role_link);
			dlist_push_tail(&owners->spare, &owner->role_link);
		}
	}
	charge->charged = false;
	SpinLockRelease(&owners->mutex);
}

static int
charges_of_role(Oid role)
{
	const ZkLockOwner *owner = find_role(role);

	return owner == NULL ? 0 : owner->ncharges;
}

void
zklock_owners_unfinished(ZkLockUnfinished *unfinished)
{
	Oid			role = GetAuthenticatedUserId();

	SpinLockAcquire(&owners->mutex);
	unfinished->mine = my_owner()->ncharges;
	unfinished->of_role = charges_of_role(role);
	unfinished->all = owners->ncharges;
	SpinLockRelease(&owners->mutex);
}

int
zklock_owners_share(void)
{
	return Max(zklock_guc_max_locks / zklock_compat_max_backends(), MIN_SHARE);
}

static bool
is_permitted(const ZkLockOwner *owner)
{
	return owner->ncharges <= owner->at_most &&
		charges_of_role(owner->role) < zklock_owners_share();
}

static void
begin_to_wait(ZkLockOwner *me, bool for_room)
{
	if (!me->waits)
		dlist_push_tail(&owners->waiting, &me->wait_link);
	Assert(me->waits || !me->for_room);
	owners->nfor_room += for_room - me->for_room;
	me->waits = true;
	me->woken = false;
	me->for_room = for_room;
}

static void
end_wait(ZkLockOwner *me)
{
	if (me->waits)
		dlist_delete(&me->wait_link);
	owners->nfor_room -= me->for_room;
	me->waits = me->for_room = false;
	Assert(owners->nfor_room >= 0);
}

bool
zklock_owners_permit(int at_most)
{
	ZkLockOwner *me = my_owner();
	bool		permitted;

	SpinLockAcquire(&owners->mutex);
	me->at_most = at_most;
	me->role = GetAuthenticatedUserId();
	permitted = is_permitted(me);
	if (permitted)
		end_wait(me);
	else
		begin_to_wait(me, false);
	SpinLockRelease(&owners->mutex);
	return permitted;
}

void
zklock_owners_wait_for_room(void)
{
	SpinLockAcquire(&owners->mutex);
	begin_to_wait(my_owner(), true);
	SpinLockRelease(&owners->mutex);
}

void
zklock_owners_end_wait(void)
{
	SpinLockAcquire(&owners->mutex);
	end_wait(my_owner());
	SpinLockRelease(&owners->mutex);
}

int
zklock_owners_reserved_room(void)
{
	const ZkLockOwner *me = my_owner();
	int			reserved;

	SpinLockAcquire(&owners->mutex);
	reserved = me->for_room ? 0 :
		me->ncharges >= zklock_owners_share() ? INT_MAX : owners->nfor_room;
	SpinLockRelease(&owners->mutex);
	return reserved;
}

bool
zklock_owners_is_room_awaited(void)
{
	bool		awaited;

	SpinLockAcquire(&owners->mutex);
	awaited = owners->nfor_room > 0;
	SpinLockRelease(&owners->mutex);
	return awaited;
}

void
zklock_owners_set_owner(ZkLockCharge *charge)
{
	ZkLockOwner *me = my_owner();

	SpinLockAcquire(&owners->mutex);
	Assert(!charge->charged);
	Assert(!me->waits || me->for_room); /* its last permit has ended that wait */
	charge->owner = me;
	SpinLockRelease(&owners->mutex);
}

void
zklock_owners_assign(ZkLockWork *work, ZkLockCharge *charge)
{
	SpinLockAcquire(&owners->mutex);
	work->charge = charge;
	SpinLockRelease(&owners->mutex);
}

void
zklock_owners_queue(ZkLockWork *work, ZkLockWorkQueue queue, bool moves)
{
	SpinLockAcquire(&owners->mutex);
	if (!work->queued || (moves && work->queue != queue))
	{
		Lane	   *lane = &work->charge->owner->lane[queue];

		if (work->queued)
			dlist_delete(&work->link);
		dlist_push_tail(&lane->work, &work->link);
		work->queued = true;
		work->queue = queue;
		if (!lane->in_turn)
			dlist_push_tail(&owners->ring[queue], &lane->turn);
		lane->in_turn = true;
	}
	SpinLockRelease(&owners->mutex);
}

ZkLockWork *
zklock_owners_next(ZkLockWorkQueue queue)
{
	dlist_head *ring = &owners->ring[queue];
	ZkLockWork *work = NULL;

	SpinLockAcquire(&owners->mutex);
	while (work == NULL && !dlist_is_empty(ring))
	{
		Lane	   *lane = dlist_container(Lane, turn,
										   dlist_pop_head_node(ring));

		Assert(lane->in_turn);
		if (!dlist_is_empty(&lane->work))
		{
			work = dlist_container(ZkLockWork, link,
								   dlist_pop_head_node(&lane->work));
			Assert(work->queued && work->queue == queue);
			work->queued = false;
		}
		lane->in_turn = !dlist_is_empty(&lane->work);
		if (lane->in_turn)
			dlist_push_tail(ring, &lane->turn);
	}
	SpinLockRelease(&owners->mutex);
	return work;
}

/*
 * Find the first waiting backend that may continue and was not woken up yet.
 * Returns NULL if there is none.  Backends that were woken up may not have
 * used their room yet, so it is subtracted.
 */
static ZkLockOwner *
find_permitted(int room)
{
	dlist_iter	iter;

	dlist_foreach(iter, &owners->waiting)
	{
		ZkLockOwner *owner = dlist_container(ZkLockOwner, wait_link, iter.cur);

		Assert(owner->waits && !is_role(owner));
		if (owner->for_room ? room-- > 0 && !owner->woken :
			!owner->woken && is_permitted(owner))
			return owner;
	}
	return NULL;
}

void
zklock_owners_let_continue(int room)
{
	ZkLockOwner *owner;

	/* Do not hold the mutex while a latch is set. */
	do
	{
		SpinLockAcquire(&owners->mutex);
		owner = find_permitted(room);
		if (owner != NULL)
			owner->woken = true;
		SpinLockRelease(&owners->mutex);
		if (owner != NULL)
			zklock_sessionstate_set_latch((int) (owner - owners->owner));
	} while (owner != NULL);
}
