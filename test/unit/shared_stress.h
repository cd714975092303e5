/*-------------------------------------------------------------------------
 *
 * shared_stress.h
 *	  Stress test of shared memory: the program's functions for its processes.
 *
 * Processes are threads (shim/threads.h). Backends acquire locks at places and
 * gates, commit, release them, time out, and exit at any point; a worker
 * serves them, ends its sessions, dies and is succeeded; one process reads all
 * claims. They run the unchanged code of src/shared and of the gate.
 *
 * No function here orders one process's accesses after another's: that would
 * hide races.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARED_STRESS_H
#define SHARED_STRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/numbers.h"

#define STRESS_PATHS 3

/* Contenders that the worker reports ahead of a node: more than there are backends */
#define STRESS_AHEAD 1000

typedef enum StressCount
{
	STRESS_N_GRANTS,
	STRESS_N_PASSED,
	STRESS_N_JOINED,
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

/* Parameters of a round */
typedef struct StressPlan
{
	int			nprocesses;		/* backends, then the worker, then the reader */
	int			nbackends;
	int			max_locks;
	int			handover;		/* ms */
	bool		gates;			/* else all nodes are claims' own */
	int			session_life;	/* average, in turns of the worker */
	bool		scans;
	int			connects;		/* %: how often a backend uses its own
								 * connection */
	int			patience;		/* ms; a longer wait is a lost wake-up */
} StressPlan;

extern StressPlan stress_plan;

/*
 * Runs the process of a role; a function of the library. True: another process
 * takes its place.
 */
typedef bool (*StressMain) (int procno, int pid);

extern bool stress_backend_main(int procno, int pid);
extern bool stress_worker_main(int procno, int pid);
extern bool stress_viewer_main(int procno, int pid);

extern unsigned stress_random(unsigned n);
extern bool stress_percent(unsigned chance);
extern void stress_count(StressCount which);

/* Do faults continue? Have all backends exited? */
extern bool stress_is_noisy(void);
extern bool stress_is_over(void);

/*
 * A process holds a lock of a generation, as far as it knows. No other process
 * may hold a conflicting lock of the same generation.
 */
extern void stress_hold(int path, bool reads, ZkLockGeneration generation);
extern void stress_let_go(int path, bool reads, ZkLockGeneration generation);

/*
 * It commits and has passed the check. No other process may commit under a
 * conflicting lock, of any generation.
 */
extern void stress_commit(int procno, int path, bool reads, ZkLockGeneration generation);
extern void stress_committed(int procno, int path, bool reads, ZkLockGeneration generation);

/*
 * A node was deleted by hand: its holder may hold the lock beside the next
 * one.
 */
extern void stress_rob(int path, ZkLockGeneration generation);

/* A backend has its own connection; it is about to close it. */
extern void stress_connect(int limit);
extern void stress_disconnect(void);

/*
 * The session of this generation is being closed: no process may commit in it.
 */
extern void stress_check_close(ZkLockGeneration generation);

#endif							/* SHARED_STRESS_H */
