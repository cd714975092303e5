/*-------------------------------------------------------------------------
 *
 * leaders.c
 *	  The paths of zklock.leaders, and whether this server leads there.  See leaders.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/compat.h"
#include "port/atomics.h"
#include "shared/leaders.h"
#include "shared/lwlocks.h"
#include "shared/sessionstate.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

typedef struct Leader
{
	ZkLockLeaderRow row;
	ZkLockSerial resigned;		/* of the term that is to end */
	uint32		asked;			/* number of the last question; 0: none */
	uint32		answered;
	ZkLockAnswer answer;
} Leader;

/* All but `relied_on` is protected by zklock_lwlocks_leaders(). */
typedef struct Leaders
{
	int			npaths;			/* those from here on are empty; also read
								 * without the lock */
	ZkLockSerial last_serial;
	Leader		leader[ZKLOCK_MAX_LEADERS];

	/*
	 * for each backend, a bit for each path whose term its transaction relies
	 * on
	 */
	pg_atomic_uint64 relied_on[FLEXIBLE_ARRAY_MEMBER];
} Leaders;

StaticAssertDecl(ZKLOCK_MAX_LEADERS <= 64, "a path has a bit");

static Leaders *shared = NULL;

Size
zklock_leaders_shmem_size(void)
{
	return add_size(offsetof(Leaders, relied_on),
					mul_size(zklock_compat_max_backends(), sizeof(pg_atomic_uint64)));
}

void
zklock_leaders_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("zklock leaders", zklock_leaders_shmem_size(), &found);
	if (found)
		return;
	memset(shared, 0, offsetof(Leaders, relied_on));
	for (int i = 0; i < zklock_compat_max_backends(); i++)
		pg_atomic_init_u64(&shared->relied_on[i], 0);
}

static void
lock(LWLockMode mode)
{
	LWLockAcquire(zklock_lwlocks_leaders(), mode);
}

static void
unlock(void)
{
	LWLockRelease(zklock_lwlocks_leaders());
}

#ifdef USE_ASSERT_CHECKING
/* Does what is said of a path agree?  Called where it has changed. */
static bool
is_sound(const Leader *leader)
{
	const ZkLockTerm *term = &leader->row.term;

	Assert(LWLockHeldByMeInMode(zklock_lwlocks_leaders(), LW_EXCLUSIVE));
	return (leader->row.leading != ZKLOCK_LEADING ||
			(leader->row.path[0] != '\0' && term->serial != 0 && term->generation != 0)) &&
		term->serial <= shared->last_serial && leader->resigned <= term->serial &&
		(int32) (leader->asked - leader->answered) >= 0;
}
#endif

bool
zklock_leaders_are_shared(void)
{
	return shared != NULL;
}

/* The number of a path; -1: it is none. */
static int
find(const char *path)
{
	Assert(LWLockHeldByMe(zklock_lwlocks_leaders()));
	for (int i = 0; i < shared->npaths; i++)
		if (strcmp(shared->leader[i].row.path, path) == 0)
			return i;
	return -1;
}

/*
 * The setting counts also before the worker has noticed it.  Without any path, this takes no
 * lock, because it is part of each acquisition.
 */
bool
zklock_leaders_has(const char *path)
{
	const char *rest = zklock_guc_leaders;
	char		listed[ZKLOCK_PATH_SIZE];
	bool		has;

	if (shared == NULL)
		return false;
	while (zklock_path_next(&rest, listed))
		if (strcmp(listed, path) == 0)
			return true;
	if (shared->npaths == 0)
		return false;
	lock(LW_SHARED);
	has = find(path) >= 0;
	unlock();
	return has;
}

bool
zklock_leaders_next(int *i, ZkLockLeaderRow *row)
{
	bool		found = false;

	if (shared == NULL)
		return false;
	lock(LW_SHARED);
	while (!found && *i < shared->npaths)
	{
		*row = shared->leader[(*i)++].row;
		found = row->path[0] != '\0';
	}
	unlock();
	return found;
}

/* The present generation is read after the term: a session that ends meanwhile ends the term. */
static bool
is_current(const Leader *leader, const ZkLockTerm *term)
{
	return leader->row.leading == ZKLOCK_LEADING && leader->row.term.serial == term->serial &&
		leader->row.term.token == term->token &&
		leader->row.term.generation == term->generation &&
		term->generation == zklock_sessionstate_generation();
}

int
zklock_leaders_find(const char *path, ZkLockTerm *term)
{
	int			leader = -1;

	if (shared == NULL || shared->npaths == 0)
		return leader;
	lock(LW_SHARED);
	leader = find(path);
	if (leader >= 0)
		*term = shared->leader[leader].row.term;
	if (leader >= 0 && !is_current(&shared->leader[leader], term))
		leader = -1;
	unlock();
	return leader;
}

bool
zklock_leaders_is_current(int leader, const ZkLockTerm *term)
{
	bool		current;

	lock(LW_SHARED);
	current = is_current(&shared->leader[leader], term);
	unlock();
	return current;
}

static pg_atomic_uint64 *
mine(void)
{
	Assert(zklock_compat_procno() < zklock_compat_max_backends());
	return &shared->relied_on[zklock_compat_procno()];
}

/* This has a full barrier, which pairs with the one of zklock_leaders_end(). */
void
zklock_leaders_rely(int leader)
{
	(void) pg_atomic_fetch_or_u64(mine(), UINT64CONST(1) << leader);
}

void
zklock_leaders_rely_on_none(void)
{
	pg_atomic_write_u64(mine(), 0);
}

static bool
relies_on(int backend, int leader)
{
	return (pg_atomic_read_u64(&shared->relied_on[backend]) & UINT64CONST(1) << leader) != 0;
}

uint32
zklock_leaders_ask(int leader)
{
	Leader	   *asked = &shared->leader[leader];
	uint32		question;

	lock(LW_EXCLUSIVE);
	if (++asked->asked == 0)
		asked->asked = 1;
	question = asked->asked;
	Assert(is_sound(asked));
	unlock();
	zklock_sessionstate_wake_worker();
	return question;
}

/* Numbers of questions wrap around. */
bool
zklock_leaders_is_answered(int leader, uint32 question, ZkLockAnswer *answer)
{
	bool		answered;

	lock(LW_SHARED);
	answered = (int32) (shared->leader[leader].answered - question) >= 0;
	if (answered)
		*answer = shared->leader[leader].answer;
	unlock();
	return answered;
}

void
zklock_leaders_resign(int leader, const ZkLockTerm *term)
{
	lock(LW_EXCLUSIVE);
	if (is_current(&shared->leader[leader], term))
		shared->leader[leader].resigned = term->serial;
	Assert(is_sound(&shared->leader[leader]));
	unlock();
	zklock_sessionstate_wake_worker();
}

static void
set(Leader *leader, ZkLockLeading leading)
{
	Assert(LWLockHeldByMeInMode(zklock_lwlocks_leaders(), LW_EXCLUSIVE));
	if (leader->row.leading != leading)
		leader->row.since = GetCurrentTimestamp();
	leader->row.leading = leading;
	Assert(is_sound(leader));
}

void
zklock_leaders_worker_starts(void)
{
	if (shared->npaths == 0)
		return;
	lock(LW_EXCLUSIVE);
	for (int i = 0; i < ZKLOCK_MAX_LEADERS; i++)
	{
		set(&shared->leader[i], ZKLOCK_LEADING_NOT);
		shared->leader[i].row.path[0] = '\0';
	}
	shared->npaths = 0;
	unlock();
}

void
zklock_leaders_set_path(int leader, const char *path)
{
	int			n = ZKLOCK_MAX_LEADERS;

	lock(LW_EXCLUSIVE);
	set(&shared->leader[leader], ZKLOCK_LEADING_NOT);
	strlcpy(shared->leader[leader].row.path, path, ZKLOCK_PATH_SIZE);
	while (n > 0 && shared->leader[n - 1].row.path[0] == '\0')
		n--;
	shared->npaths = n;
	unlock();
}

void
zklock_leaders_set(int leader, ZkLockLeading leading)
{
	Assert(leading != ZKLOCK_LEADING);

	/* Only the worker, who calls this, changes it. */
	if (shared->leader[leader].row.leading == leading)
		return;
	lock(LW_EXCLUSIVE);
	set(&shared->leader[leader], leading);
	unlock();
	zklock_sessionstate_wake_listeners();
}

void
zklock_leaders_begin(int leader, ZkLockGeneration generation, ZkLockToken token)
{
	Leader	   *begun = &shared->leader[leader];

	lock(LW_EXCLUSIVE);
	begun->row.term = (ZkLockTerm) {
		.generation = generation,
		.serial = ++shared->last_serial,
		.token = token
	};
	set(begun, ZKLOCK_LEADING);
	unlock();
	zklock_sessionstate_wake_listeners();
}

/* Call for the backends that rely on a term of this path. */
static void
tell(int leader, void (*call) (int procno))
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
		if (relies_on(i, leader))
			call(i);
}

void
zklock_leaders_end(int leader)
{
	zklock_leaders_set(leader, ZKLOCK_LEADING_ENDS);

	/* Either we see that a backend relies on the term, or it sees the end. */
	pg_memory_barrier();
	tell(leader, zklock_sessionstate_cancel);
}

bool
zklock_leaders_is_committing(int leader)
{
	for (int i = 0; i < zklock_compat_max_backends(); i++)
		if (relies_on(i, leader) && zklock_sessionstate_is_backend_committing(i))
			return true;
	return false;
}

bool
zklock_leaders_is_resigned(int leader)
{
	const Leader *present = &shared->leader[leader];
	bool		resigned;

	lock(LW_SHARED);
	resigned = present->resigned == present->row.term.serial;
	unlock();
	return resigned;
}

uint32
zklock_leaders_asked(int leader)
{
	const Leader *present = &shared->leader[leader];
	uint32		question;

	lock(LW_SHARED);
	question = present->asked != present->answered ? present->asked : 0;
	unlock();
	return question;
}

void
zklock_leaders_answer(int leader, uint32 question, ZkLockAnswer answer)
{
	Leader	   *asked = &shared->leader[leader];

	lock(LW_EXCLUSIVE);
	asked->answered = question;
	asked->answer = answer;
	Assert(is_sound(asked));
	unlock();
	tell(leader, zklock_sessionstate_set_latch);
}
