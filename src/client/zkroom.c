/*-------------------------------------------------------------------------
 *
 * zkroom.c
 *	  Limits the nodes that a session has, and their owners.  See zkroom.h.
 *
 *-------------------------------------------------------------------------
 */
#include "client/zkroom.h"

#include <stdlib.h>

#include "protocol/check.h"

/* The part of the limit that is reserved for records of waits */
#define RECORDS(limit) ((limit) / 16)

/* The size of a node.  The chroot is part of its path. */
static size_t
size_of(const ZkLockNodeAccounts *accounts, size_t path_len)
{
	return sizeof(int32_t) + accounts->chroot_len + path_len;
}

static ZkLockNodeOwner **
find_owner(ZkLockNodeAccounts *accounts, uint32_t id)
{
	ZkLockNodeOwner **where = &accounts->owners;

	while (*where != NULL && (*where)->id != id)
		where = &(*where)->next;
	return where;
}

#ifdef USE_ASSERT_CHECKING
/*
 * Does each owner have nodes, which have a size and of which it has given up a part?  All
 * owners' nodes together are those of the session.  Who waits for room waits for what is
 * given up.
 */
static bool
is_sound(const ZkLockNodeAccounts *accounts)
{
	ZkLockNodeSizes sum = {0};

	for (const ZkLockNodeOwner *owner = accounts->owners; owner != NULL; owner = owner->next)
	{
		if (owner->nnodes <= 0 || owner->sizes.all == 0 ||
			owner->sizes.given_up > owner->sizes.all)
			return false;
		sum.all += owner->sizes.all;
		sum.given_up += owner->sizes.given_up;
	}
	return sum.all == accounts->sizes.all && sum.given_up == accounts->sizes.given_up &&
		(!accounts->awaited || sum.given_up > 0);
}
#endif

static bool
is_enough(size_t limit, const size_t *mine, size_t session, size_t size)
{
	return session + size <= limit &&
		(mine == NULL || *mine + size <= limit - session - size);
}

/*
 * Is there room for another node of `size`?  `mine` are the sizes of the nodes that its owner
 * has already, and `session` those of the whole session.  `mine` is NULL if the session has one
 * owner.
 */
static ZkLockRoom
room_for(size_t size, ZkLockNodeKind kind, size_t limit, const ZkLockNodeSizes *mine,
		 const ZkLockNodeSizes *session)
{
	size_t		mine_later;

	ZKLOCK_ASSERT(session->given_up <= session->all);
	ZKLOCK_ASSERT(mine == NULL || (mine->given_up <= mine->all && mine->all <= session->all));
	if (kind == ZKLOCK_NODE_LOCK)
		limit -= RECORDS(limit);
	else
		mine = NULL;
	if (is_enough(limit, mine == NULL ? NULL : &mine->all, session->all, size))
		return ZKLOCK_ROOM;
	if (mine != NULL)
		mine_later = mine->all - mine->given_up;
	return is_enough(limit, mine == NULL ? NULL : &mine_later,
					 session->all - session->given_up, size) ?
		ZKLOCK_ROOM_LATER : ZKLOCK_ROOM_NONE;
}

ZkLockRoom
zklock_zkroom_find(ZkLockNodeAccounts *accounts, size_t limit, ZkLockNodeKind kind,
				   uint32_t owner, size_t path_len)
{
	static const ZkLockNodeSizes none = {0};
	const ZkLockNodeOwner *found = owner == 0 ? NULL : *find_owner(accounts, owner);
	const ZkLockNodeSizes *mine = owner == 0 ? NULL :
		found == NULL ? &none : &found->sizes;
	ZkLockRoom	room = room_for(size_of(accounts, path_len), kind, limit, mine, &accounts->sizes);

	accounts->awaited |= room == ZKLOCK_ROOM_LATER;
	ZKLOCK_ASSERT(is_sound(accounts));
	return room;
}

/* The owner of this number, with room for one more node; NULL: no memory */
static ZkLockNodeOwner *
use_owner(ZkLockNodeAccounts *accounts, uint32_t id)
{
	ZkLockNodeOwner **where = find_owner(accounts, id);

	if (*where == NULL)
	{
		*where = calloc(1, sizeof(ZkLockNodeOwner));
		if (*where == NULL)
			return NULL;
		(*where)->id = id;
	}
	return *where;
}

static void
count(ZkLockNodeSizes *sizes, const ZkLockNodeAccount *account, bool more)
{
	size_t		given_up = account->given_up ? account->size : 0;

	sizes->all += more ? account->size : -account->size;
	sizes->given_up += more ? given_up : -given_up;
}

static void
join_owner(ZkLockNodeAccount *account, ZkLockNodeOwner *owner)
{
	account->owner = owner;
	owner->nnodes++;
	count(&owner->sizes, account, true);
}

static void
leave_owner(ZkLockNodeAccounts *accounts, ZkLockNodeAccount *account)
{
	ZkLockNodeOwner *owner = account->owner;

	count(&owner->sizes, account, false);
	account->owner = NULL;
	if (--owner->nnodes == 0)
	{
		*find_owner(accounts, owner->id) = owner->next;
		free(owner);
	}
}

/* Is the caller to be told?  It asks again, and is told again if it still waits. */
static bool
end_wait(ZkLockNodeAccounts *accounts)
{
	bool		awaited = accounts->awaited;

	accounts->awaited = false;
	ZKLOCK_ASSERT(is_sound(accounts));
	return awaited;
}

bool
zklock_zkroom_add(ZkLockNodeAccounts *accounts, ZkLockNodeAccount *account,
				  uint32_t owner, size_t path_len)
{
	ZkLockNodeOwner *used = use_owner(accounts, owner);

	if (used == NULL)
		return false;
	ZKLOCK_ASSERT(account->owner == NULL);
	account->size = size_of(accounts, path_len);
	account->given_up = false;
	join_owner(account, used);
	count(&accounts->sizes, account, true);
	ZKLOCK_ASSERT(is_sound(accounts));
	return true;
}

void
zklock_zkroom_move(ZkLockNodeAccounts *accounts, ZkLockNodeAccount *account,
				   uint32_t owner)
{
	ZkLockNodeOwner *used;

	if (account->owner == NULL || account->owner->id == owner)
		return;
	used = use_owner(accounts, owner);
	if (used == NULL)
		return;
	leave_owner(accounts, account);
	join_owner(account, used);
	ZKLOCK_ASSERT(is_sound(accounts));
}

bool
zklock_zkroom_give_up(ZkLockNodeAccounts *accounts, ZkLockNodeAccount *account,
					  bool given_up)
{
	if (account->owner == NULL || account->given_up == given_up)
		return false;
	count(&accounts->sizes, account, false);
	count(&account->owner->sizes, account, false);
	account->given_up = given_up;
	count(&accounts->sizes, account, true);
	count(&account->owner->sizes, account, true);
	if (!given_up)
		return end_wait(accounts);
	ZKLOCK_ASSERT(is_sound(accounts));
	return false;
}

bool
zklock_zkroom_remove(ZkLockNodeAccounts *accounts, ZkLockNodeAccount *account)
{
	if (account->owner == NULL)
		return false;
	count(&accounts->sizes, account, false);
	leave_owner(accounts, account);
	return end_wait(accounts);
}
