/*-------------------------------------------------------------------------
 *
 * tenure.h
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
#ifndef ZKLOCK_TENURE_H
#define ZKLOCK_TENURE_H

typedef enum ZkLockTenureState
{
	ZKLOCK_TENURE_VACANT,		/* there is no worker */
	ZKLOCK_TENURE_IDLE,			/* there is no session */
	ZKLOCK_TENURE_CONNECTING,
	ZKLOCK_TENURE_CONNECTED,
	ZKLOCK_TENURE_REFUSED,		/* the last try: authentication failed */
	ZKLOCK_TENURE_FAILED		/* the last try: see `why` */
} ZkLockTenureState;

typedef struct ZkLockTenureStatus
{
	ZkLockTenureState state;
	bool		begun;			/* the session has had a connection */
	bool		draining;		/* the worker is about to end it */
	uint32		knocks;			/* those before this one were heard */
	int64		session;
	int			timeout;		/* ms */
	int64		confirmed;		/* see zklock_zkclient_now() */
	char		why[128];
} ZkLockTenureStatus;

/* In the postmaster only; see shmem.c. */
extern Size zklock_tenure_shmem_size(void);
extern void zklock_tenure_shmem_init(void);
extern void zklock_tenure_init(void);

/* Is there shared memory for it? */
extern bool zklock_tenure_is_shared(void);

/*
 * For backends.
 */
extern uint32 zklock_tenure_generation(void);
extern void zklock_tenure_status(ZkLockTenureStatus *status);

/* Have the worker look for work. */
extern void zklock_tenure_wake_worker(void);

/* A session is needed: have the worker begin one.  Returns the knock's number. */
extern uint32 zklock_tenure_knock(void);

/* While it is on, this backend's latch is set whenever the status changes. */
extern void zklock_tenure_listen(bool on);

/* A commit begins, and may rely on what it finds from now on; it is over. */
extern void zklock_tenure_commit(bool begins);

/*
 * While it is on, the end of the generation cancels the running statement, and so
 * does zklock_tenure_request(): who turns it on sees what was before that.  When
 * it has been turned off, no more cancel comes; one that came is there already.
 */
extern void zklock_tenure_alarm(bool on);

/* How often somebody has asked for what this backend has, or one before it had. */
extern uint64 zklock_tenure_requests(void);

/* Set a backend's latch. */
extern void zklock_tenure_wake(int procno);

/*
 * For the worker.
 */

/* It is there, and gone when it exits. */
extern void zklock_tenure_take_up(void);
extern void zklock_tenure_publish(const ZkLockTenureStatus *status);
extern void zklock_tenure_confirm(int64 confirmed);

/* How often somebody has knocked. */
extern uint32 zklock_tenure_knocks(void);

/* Does anybody wait for another status? */
extern bool zklock_tenure_is_listened(void);

/*
 * Count the generation up, and cancel the statements of those who hold anything.
 * Returns the one that is over.
 */
extern uint32 zklock_tenure_end(void);

/*
 * Somebody asks for what a backend has: count that, send its alarm if that is on,
 * and set its latch.
 */
extern void zklock_tenure_request(int procno);

/* Does anybody commit who has found that generation, or one before, alive? */
extern bool zklock_tenure_is_committing(uint32 generation);

/*
 * The session's identity, for who has to end it when this worker cannot: it
 * outlives all of shared memory, but not the postmaster.  NULL: there is none.
 */
typedef struct ZkLockKeepsake
{
	int64		session;
	int			timeout;		/* ms */
	char		password[16];
} ZkLockKeepsake;

extern const ZkLockKeepsake *zklock_tenure_left_behind(void);
extern void zklock_tenure_keep(const ZkLockKeepsake *keepsake);

#endif							/* ZKLOCK_TENURE_H */
