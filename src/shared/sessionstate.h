/*-------------------------------------------------------------------------
 *
 * sessionstate.h
 *	  The server's session, as all of its backends see it.
 *
 * The worker has one session after the other; a generation is the time of one.
 * What was granted in a generation is held as long as this is the present one.
 *
 * Promises that no session is ended on purpose under a commit that has found its
 * locks held: who commits raises his flag first, then looks at what is confirmed
 * and at the generation; who ends a session counts the generation up first, then
 * waits for the flags of those before.
 *
 * Nothing here raises or allocates.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_SESSIONSTATE_H
#define ZKLOCK_SESSIONSTATE_H

/* A worker that has not looked at its work for so long, in ns, does not respond. */
#define ZKLOCK_SESSIONSTATE_STALL INT64CONST(5000000000)

typedef enum ZkLockSessionState
{
	ZKLOCK_SESSIONSTATE_NO_WORKER,	/* there is no worker */
	ZKLOCK_SESSIONSTATE_NONE,	/* there is no session */
	ZKLOCK_SESSIONSTATE_CONNECTING,
	ZKLOCK_SESSIONSTATE_CONNECTED,
	ZKLOCK_SESSIONSTATE_REFUSED,	/* the last try: authentication failed */
	ZKLOCK_SESSIONSTATE_FAILED	/* the last try: see ZkLockTenureFailure */
} ZkLockSessionState;

/* Why the last try to begin a session failed.  Texts are in UTF-8; "": none. */
typedef struct ZkLockTenureFailure
{
	int			sqlstate;		/* 0: `message` says why there is no connection */
	char		message[512];
	char		detail[256];
	char		hint[256];
} ZkLockTenureFailure;

typedef struct ZkLockSessionStatus
{
	ZkLockSessionState state;
	bool		begun;			/* the session has had a connection */
	bool		ending;			/* it is to end when nothing is held in it */
	bool		draining;		/* the worker is about to end it */
	uint32		connect_requests;	/* those before this one were heard */
	int64		session_id;
	int			timeout;		/* ms */
	int64		confirmed;		/* see zklock_zkclient_now() */
	int64		turned;			/* when the worker last looked at its work; 0: never */
} ZkLockSessionStatus;

/* In the postmaster only; see shmem.c. */
extern Size zklock_sessionstate_shmem_size(void);
extern void zklock_sessionstate_shmem_init(void);

/* Is there shared memory for it? */
extern bool zklock_sessionstate_is_shared(void);

/*
 * For backends.
 */
extern uint32 zklock_sessionstate_generation(void);
extern void zklock_sessionstate_status(ZkLockSessionStatus *status);

/*
 * Returns `confirmed` of ZkLockSessionStatus.  A caller that reads the generation after
 * this call gets that of the confirmed session, or a later one.
 */
extern int64 zklock_sessionstate_confirmed(void);
extern void zklock_sessionstate_failure(ZkLockTenureFailure *failure);

/* Have the worker look for work. */
extern void zklock_sessionstate_wake_worker(void);

/* Request a session from the worker.  Returns the number of the request. */
extern uint32 zklock_sessionstate_request_connect(void);

/* While it is on, this backend's latch is set whenever the status changes. */
extern void zklock_sessionstate_listen(bool on);

/* A commit begins, and may rely on what it finds from now on; it is over. */
extern void zklock_sessionstate_commit(bool begins);

/*
 * While it is on, the end of the generation cancels the running statement, and so
 * does zklock_sessionstate_revoke(): who turns it on sees what was before that.  When
 * it has been turned off, no more cancel comes; one that came is there already.
 */
extern void zklock_sessionstate_cancel_on_loss(bool on);

/* How often somebody has asked for what this backend has, or one before it had. */
extern uint64 zklock_sessionstate_revocations(void);

/* Set a backend's latch. */
extern void zklock_sessionstate_wake(int procno);

/*
 * For the worker.
 */

/* It is there, and gone when it exits. */
extern void zklock_sessionstate_worker_starts(int64 now);

/* It looks at its work.  Those who listen are told if it has not for too long. */
extern void zklock_sessionstate_turn(int64 now);
extern void zklock_sessionstate_publish(const ZkLockSessionStatus *status);
extern void zklock_sessionstate_fail(const ZkLockTenureFailure *failure);
extern void zklock_sessionstate_confirm(int64 confirmed);

/* How many requests there were. */
extern uint32 zklock_sessionstate_connect_requests(void);

/* Does anybody wait for another status? */
extern bool zklock_sessionstate_is_listened(void);

/*
 * Count the generation up, and cancel the statements of those who hold anything.
 * Returns the one that is over.
 */
extern uint32 zklock_sessionstate_end(void);

/*
 * Somebody asks for what a backend has: count that, cancel its statement if cancel on loss is on,
 * and set its latch.
 */
extern void zklock_sessionstate_revoke(int procno);

/* Does anybody commit who has found that generation, or one before, alive? */
extern bool zklock_sessionstate_is_committing(uint32 generation);

#endif							/* ZKLOCK_SESSIONSTATE_H */
