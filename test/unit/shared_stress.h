/*-------------------------------------------------------------------------
 *
 * shared_stress.h
 *	  The stress of what processes share: what its processes ask of the program.
 *
 * Processes are threads (shim/threads.h).  Backends take locks at places and gates,
 * commit, give them back, time out, and exit in the midst of all that; a worker
 * serves them, retires its sessions, dies and is succeeded; one process looks on.
 * They run the unchanged code of src/shared and of the gate.
 *
 * Nothing here orders one process's accesses after another's: that would hide
 * races.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARED_STRESS_H
#define SHARED_STRESS_H

#include <stdbool.h>
#include <stdint.h>

#define STRESS_PATHS 3

typedef enum StressCount
{
	STRESS_N_GRANTS,
	STRESS_N_PASSED,
	STRESS_N_COMMITS,
	STRESS_N_REFUSED,
	STRESS_N_ASKED,
	STRESS_N_EXPIRED,
	STRESS_N_TIMEOUTS,
	STRESS_N_TRIES,
	STRESS_N_CANCELS,
	STRESS_N_FULL,
	STRESS_N_ROOM_AWAITED,
	STRESS_N_UNFINISHED_AWAITED,
	STRESS_N_OWN_SHARES,
	STRESS_N_ROLE_SHARES,
	STRESS_N_STALLED,
	STRESS_N_CONNECTIONS,
	STRESS_N_EXITS_WAITING,
	STRESS_N_EXITS_HOLDING,
	STRESS_N_SIGNALS,
	STRESS_N_ROWS,
	STRESS_N_SCANS,
	STRESS_N_RETIRED,
	STRESS_N_DEATHS,
	STRESS_N_FLAGS_AWAITED,
	STRESS_N_RIVALS,
	STRESS_N_ROBBED,
	STRESS_N_REVOKED,
	STRESS_N_COUNTS
} StressCount;

/* Drawn for each round */
typedef struct StressPlan
{
	int			nprocesses;		/* backends, then the worker, then who looks on */
	int			nbackends;
	int			max_locks;
	int			handover;		/* ms */
	bool		gates;			/* else all nodes are claims' own */
	int			session_life;	/* of worker's turns, on average */
	bool		scans;
	int			connects;		/* %: how often a backend connects by itself */
	int			patience;		/* ms; a longer wait is a lost wake-up */
} StressPlan;

extern StressPlan stress_plan;

/*
 * The process of a role; a function of the library.  True: another process takes
 * its place.
 */
typedef bool (*StressMain) (int procno, int pid);

extern bool stress_backend_main(int procno, int pid);
extern bool stress_worker_main(int procno, int pid);
extern bool stress_viewer_main(int procno, int pid);

extern unsigned stress_random(unsigned n);
extern bool stress_percent(unsigned chance);
extern void stress_count(StressCount which);

/* Do misfortunes go on?  Have all backends gone? */
extern bool stress_is_noisy(void);
extern bool stress_is_over(void);

/*
 * A process holds a lock of a generation, as far as it was told.  No other may hold
 * a conflicting lock of the same generation.
 */
extern void stress_hold(int path, bool reads, uint32_t generation);
extern void stress_let_go(int path, bool reads, uint32_t generation);

/*
 * It commits and has passed the check.  No other may commit under a conflicting
 * lock, of any generation.
 */
extern void stress_commit(int procno, int path, bool reads, uint32_t generation);
extern void stress_committed(int procno, int path, bool reads, uint32_t generation);

/* A node was deleted by hand: its holder may hold it beside the next one. */
extern void stress_rob(int path, uint32_t generation);

/* A backend has a connection of its own; it is about to close it. */
extern void stress_connect(int limit);
extern void stress_disconnect(void);

/* The session of this generation is being closed: nobody may commit in it. */
extern void stress_check_close(uint32_t generation);

#endif							/* SHARED_STRESS_H */
