/*-------------------------------------------------------------------------
 *
 * backend.h
 *	  More of PostgreSQL for one process: what backends and workers are beyond
 *	  shared memory.
 *
 * In each process's copy of the library: memory contexts (memory.c), errors
 * (errors.c), hash tables (hash.c), transactions (xact.c), waits, interrupts,
 * settings and exits (backend.c).  What all copies use of the program is declared
 * here, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHIM_BACKEND_H
#define SHIM_BACKEND_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Of the program, as those of shim.h.  Wait until the latch is set, or `rung` (if it
 * `listens`) there is something to read; false: `ms` have passed.  The latch stays set.
 */
extern bool shim_wait(int64_t ms, bool listens);
extern void shim_reset_latch(void);
extern bool shim_is_latch_set(void);
extern bool shim_take_ring(void);

/* Another process may go on here. */
extern void shim_point(void);

/* Signals are handled from now on. */
extern void shim_unblock_signals(void);

/* The process is gone. */
extern void shim_exit(int code) __attribute__((noreturn));

/* 0 .. n - 1; where nothing depends on it, noise */
extern uint32_t shim_random(uint32_t n);
extern uint32_t shim_noise(uint32_t n);

/* Is memory out, this time? */
extern bool shim_is_out_of_memory(void);

/* The same for so much memory that its user expects that. */
extern bool shim_is_out_of_large_memory(void);

/* Does a wait of the worker fail, this time? */
extern bool shim_is_wait_failing(void);

/* A line of the trace, if there is one. */
extern bool shim_is_traced(void);
extern void shim_trace(const char *fmt,...)
			__attribute__((format(printf, 1, 2)));

/* Does it have an LWLock or a spinlock?  When did it get its last LWLock? */
extern bool shim_is_locked(void);
extern int64_t shim_locked_at(void);

/* The settings of the server that this process is of. */
typedef struct ShimSettings
{
	const char *hosts;
	const char *leaders;		/* as zklock.leaders */
	bool		recovers;		/* a standby's */
	int			server;			/* its number */
	int			handover_time;
	int			keep_time;
	int			max_kept_locks;
	int			max_locks;
	int			max_locks_per_backend;
	int			session_timeout;
	int			max_session_size;
	int			connect_timeout;
	int			idle_session_timeout;
	int			confirm_commit;
	bool		revocable;
	bool		disconnects;	/* a client whose lock is lost */
} ShimSettings;

extern const ShimSettings *shim_settings(void);

/* What outlives the server's crash: one file. */
extern void *shim_file(void);

/*
 * Of the library.  A backend's, or a worker's, beginning; its signals are those of
 * postgres.c.
 */
extern void shim_backend_begin(int procno, int pid, bool is_worker);

/* Free all that this copy of the library has allocated; it is not used any more. */
extern void shim_process_clear(void);
extern void shim_memory_clear(void);

/*
 * A cancel that is pending is discarded, as by PostgresMain().  Has a user asked for that, or
 * for one that was raised since the last time?
 */
extern bool shim_forget_cancel(void);

/* Has an error ended what runs? */
extern bool shim_is_error_handled(void);

/* Is the last error a cancel that has no better explanation? */
extern bool shim_was_user_cancel(void);

/* Does it say that a session has ended? */
extern bool shim_was_session_lost(void);
extern bool shim_was_unconfirmed(void);

/* What the locks of PostgreSQL are doing */
typedef enum ShimXactPhase
{
	SHIM_XACT_NONE,				/* no transaction is ending */
	SHIM_XACT_ENDING,			/* its locks are there */
	SHIM_XACT_UNLOCKED			/* they are not */
} ShimXactPhase;

extern ShimXactPhase shim_xact_phase(void);

/* The commands of transactions.  A commit may raise an error, and is undone then. */
extern void shim_xact_begin(void);
extern bool shim_xact_is_begun(void);
extern int	shim_xact_nsavepoints(void);
extern void shim_xact_savepoint(void);
extern void shim_xact_release(void);
extern void shim_xact_rollback_to(void);
extern void shim_xact_commit(void);
extern void shim_xact_abort(void);

/* Called between the check of a commit and its effect, and behind that. */
extern void shim_xact_committing(void);
extern void shim_xact_committed(void);

#endif							/* SHIM_BACKEND_H */
