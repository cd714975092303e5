/*-------------------------------------------------------------------------
 *
 * deadlock_pgwaits.c
 *	  Waits for locks of PostgreSQL's own lock manager.  See deadlock_pgwaits.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/deadlock_pgwaits.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"

#define ANY_PID		0

uint32
zklock_deadlock_pgwaits_nprocesses(void)
{
	return ProcGlobal->allProcCount;
}

bool
zklock_deadlock_pgwaits_any(void)
{
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		const volatile PGPROC *proc = &ProcGlobal->allProcs[i];

		if (proc->waitLock != NULL)
			return true;
	}
	return false;
}

static int
pid_of(uint32 process)
{
	const volatile PGPROC *proc = &ProcGlobal->allProcs[process];

	return proc->pid;
}

/* Perhaps a parallel worker of the process waits. */
static bool
may_wait(uint32 process)
{
	const volatile PGPROC *proc = &ProcGlobal->allProcs[process];

	return proc->pid != 0 && (proc->waitLock != NULL || proc->lockGroupLeader != NULL);
}

/* A parallel worker is represented by its leader. */
static uint32
number_of_leader(const PGPROC *proc)
{
	const PGPROC *leader = proc->lockGroupLeader;

	return (leader != NULL ? leader : proc) - ProcGlobal->allProcs;
}

static bool
is_followed(const LOCKTAG *tag)
{
	switch ((LockTagType) tag->locktag_type)
	{
		case LOCKTAG_RELATION_EXTEND:
		case LOCKTAG_PAGE:
		case LOCKTAG_SPECULATIVE_TOKEN:
			return false;
		default:
			return true;
	}
}

static bool
is_ahead(const BlockedProcsData *data, const BlockedProcData *blocked, int pid)
{
	for (int i = 0; i < blocked->num_waiters; i++)
		if (data->waiter_pids[blocked->first_waiter + i] == pid)
			return true;
	return false;
}

/* Does the holder or waiter `other` of a lock block one who waits for it? */
static bool
is_blocked_by(const BlockedProcsData *data, const BlockedProcData *blocked,
			  const LockInstanceData *waiter, const LockInstanceData *other)
{
	LockMethod	method = GetLockTagsMethodTable(&waiter->locktag);
	LOCKMASK	conflicts = method->conflictTab[waiter->waitLockMode];

	if (other->leaderPid == waiter->leaderPid)
		return false;
	if (conflicts & other->holdMask)
		return true;
	return other->waitLockMode != NoLock &&
		(conflicts & LOCKBIT_ON(other->waitLockMode)) &&
		is_ahead(data, blocked, other->pid);
}

static void
add_wait(const LockInstanceData *waiter, int blocker_pid, ZkLockPgWait *waits,
		 int *n)
{
	PGPROC	   *waiting = BackendPidGetProc(waiter->pid);
	PGPROC	   *proc = BackendPidGetProc(blocker_pid);

	if (waiting == NULL || proc == NULL || (proc->statusFlags & PROC_IS_AUTOVACUUM) != 0)
		return;
	waits[(*n)++] = (ZkLockPgWait) {
		.blocker = (uint32) (proc - ProcGlobal->allProcs),
		.blocker_pid = blocker_pid,
		.tag = waiter->locktag,
		.mode = waiter->waitLockMode,
		.start = (TimestampTz) pg_atomic_read_u64(&waiting->waitStart)
	};
}

/*
 * Add what blocks one process: the backend or one of its parallel workers.  With a
 * leader's pid, only what it blocks: to compare all waiters for a lock with each other
 * takes too long when there are many.
 */
static void
add_waits(const BlockedProcsData *data, const BlockedProcData *blocked, int leader_pid,
		  ZkLockPgWait *waits, int *n)
{
	const LockInstanceData *locks = &data->locks[blocked->first_lock];
	const LockInstanceData *waiter = NULL;

	for (int i = 0; i < blocked->num_locks; i++)
		if (locks[i].pid == blocked->pid)
			waiter = &locks[i];
	if (waiter == NULL || !is_followed(&waiter->locktag))
		return;
	for (int i = 0; i < blocked->num_locks; i++)
		if ((leader_pid == ANY_PID || locks[i].leaderPid == leader_pid) &&
			is_blocked_by(data, blocked, waiter, &locks[i]))
			add_wait(waiter, locks[i].leaderPid, waits, n);
}

static int
read_waits(uint32 process, int leader_pid, ZkLockPgWait **waits)
{
	int			pid = pid_of(process);
	int			n = 0;
	BlockedProcsData *data;

	*waits = NULL;
	CHECK_FOR_INTERRUPTS();
	if (pid == 0 || !may_wait(process))
		return 0;
	data = GetBlockerStatusData(pid);
	*waits = palloc(Max(data->nlocks, 1) * sizeof(ZkLockPgWait));
	for (int i = 0; i < data->nprocs; i++)
		add_waits(data, &data->procs[i], leader_pid, *waits, &n);

	/* It is as large as the server, and a caller asks about many processes. */
	pfree(data->procs);
	pfree(data->locks);
	pfree(data->waiter_pids);
	pfree(data);
	return n;
}

int
zklock_deadlock_pgwaits_read(uint32 process, ZkLockPgWait **waits)
{
	return read_waits(process, ANY_PID, waits);
}

int
zklock_deadlock_pgwaits_holders(const LOCKTAG *tag, LOCKMODE mode, uint32 **holders)
{
	int			n;
	VirtualTransactionId *transactions = GetLockConflicts(tag, mode, &n);
	int			found = 0;

	*holders = palloc(Max(n, 1) * sizeof(uint32));
	for (int i = 0; i < n; i++)
	{
		PGPROC	   *proc = zklock_compat_process_of(transactions[i]);

		if (proc != NULL)
			(*holders)[found++] = number_of_leader(proc);
	}
	pfree(transactions);
	return found;
}

/*
 * Mark the processes that wait for a lock which this one has, or waits for.  Nobody waits
 * for a lock that is in a fast path: it is moved to the lock table before.
 */
static void
mark_waiters(PGPROC *proc, bool *waiters)
{
	for (int i = 0; i < NUM_LOCK_PARTITIONS; i++)
	{
		PROCLOCK   *proclock = NULL;

		LWLockAcquire(LockHashPartitionLockByIndex(i), LW_SHARED);
		while ((proclock = zklock_compat_next_proclock(proc, i, proclock)) != NULL)
		{
			const LOCK *lock = proclock->tag.myLock;

			for (uint32 k = 0; k < ProcGlobal->allProcCount &&
				 lock->nRequested > lock->nGranted; k++)
				if (ProcGlobal->allProcs[k].waitLock == lock)
					waiters[number_of_leader(&ProcGlobal->allProcs[k])] = true;
		}
		LWLockRelease(LockHashPartitionLockByIndex(i));
	}
}

/* The same for a process with its parallel workers */
static void
mark_waiters_of_group(uint32 process, bool *waiters)
{
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
		if (i == process ||
			ProcGlobal->allProcs[i].lockGroupLeader == &ProcGlobal->allProcs[process])
			mark_waiters(&ProcGlobal->allProcs[i], waiters);
}

/* Does a process wait for another one?  Sets its step. */
static bool
find_step(uint32 process, uint32 blocker, ZkLockPgStep *step)
{
	ZkLockPgWait *waits;
	int			pid = pid_of(process);
	int			n = read_waits(process, pid_of(blocker), &waits);
	bool		found = false;

	for (int i = 0; i < n && !found; i++)
		if (waits[i].blocker == blocker)
		{
			*step = (ZkLockPgStep) {process, pid, waits[i]};
			found = true;
		}
	if (waits != NULL)
		pfree(waits);
	return found;
}

int
zklock_deadlock_pgwaits_behind(uint32 process, bool *behind, ZkLockPgStep *steps)
{
	uint32		nprocesses = zklock_deadlock_pgwaits_nprocesses();
	uint32	   *found = palloc(nprocesses * sizeof(uint32));
	int			nfound = 0;
	bool	   *waiters = palloc(nprocesses * sizeof(bool));

	memset(behind, 0, nprocesses * sizeof(bool));
	found[nfound++] = process;
	for (int i = 0; i < nfound; i++)
	{
		memset(waiters, 0, nprocesses * sizeof(bool));
		mark_waiters_of_group(found[i], waiters);
		for (uint32 k = 0; k < nprocesses; k++)
			if (waiters[k] && k != process && !behind[k] &&
				find_step(k, found[i], &steps[k]))
			{
				behind[k] = true;
				found[nfound++] = k;
			}
	}
	pfree(waiters);
	pfree(found);
	return nfound - 1;
}

bool
zklock_deadlock_pgwaits_is_same(const ZkLockPgWait *a, const ZkLockPgWait *b)
{
	return memcmp(&a->tag, &b->tag, sizeof(LOCKTAG)) == 0 && a->mode == b->mode &&
		a->start == b->start && a->blocker_pid == b->blocker_pid;
}

static bool
is_step_unchanged(const ZkLockPgStep *step)
{
	ZkLockPgWait *waits;
	int			n = zklock_deadlock_pgwaits_read(step->process, &waits);

	for (int i = 0; i < n && step->pid == pid_of(step->process); i++)
		if (zklock_deadlock_pgwaits_is_same(&step->wait, &waits[i]))
			return true;
	return false;
}

bool
zklock_deadlock_pgwaits_is_unchanged(const ZkLockPgStep *chain, int n)
{
	for (int i = 0; i < n; i++)
		if (!is_step_unchanged(&chain[i]))
			return false;
	return true;
}
