/*-------------------------------------------------------------------------
 *
 * scheduler.h
 *	  Processes that take turns on one thread, as a seed decides.
 *
 * Each process is a coroutine with a stack of its own.  At each call of shim.h, and at
 * each access to something volatile, another process may be continued instead, or time
 * may pass for everything else.  Nothing but sim_random() decides that, so that a seed
 * is a schedule.
 *
 * Time is virtual, in nanoseconds.  It passes a little at each of these points, and
 * when all processes wait it moves on to the next moment at which something happens.
 *
 * In a schedule of choices (server_choice.h) each point is a decision: the process goes on,
 * or another one does, or what can happen by itself does, or the process stands still until
 * everything else is at rest, or until time has passed, too; or there is a fault.  A process
 * that cannot go on is a decision with the same options: the next one goes on, and if none
 * can, what happens by itself, and if nothing does, time passes.
 *
 * Memory is consistent for all processes: what needs barriers is found by threads.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHIM_SCHEDULER_H
#define SHIM_SCHEDULER_H

#include "shim/shim.h"

#define SHIM_NEVER INT64_MAX

/* How a process has ended */
typedef enum ShimEnd
{
	SHIM_EXITED,
	SHIM_KILLED
} ShimEnd;

/* What happens besides the processes */
typedef struct ShimWorld
{
	/* One thing that happens by itself; false: there is none now. */
	bool		(*step) (void);

	/* When there will be one, besides what processes do, or SHIM_NEVER. */
	int64_t		(*next) (void);

	/* Called before each turn: a fault, maybe. */
	void		(*mishap) (void);

	/* Everybody waits: time is about to move on to `then`. */
	void		(*idle) (int64_t then);
	void		(*ended) (int process, int code);

	/* See shim_scheduler_trap(). */
	void		(*trapped) (int process);
	bool		(*is_over) (void);

	/*
	 * For schedules of choices (server_choice.h), in place of step() and of
	 * faults: what can happen by itself is an act of one of so many actors.
	 * So many faults can happen now, one of 0 .. nstrikes() - 1.
	 */
	int			(*nactors) (void);
	bool		(*can_act) (int actor);
	void		(*act) (int actor);
	int			(*nstrikes) (void);
	void		(*strike) (int which);
} ShimWorld;

/* Load a copy of the library for each process; once. */
extern void shim_scheduler_load(const char *library);

/* Forget all processes, areas and the time. */
extern void shim_scheduler_reset(const ShimWorld *world);

/* On average a process goes on for so many points, each of which takes `drift` ns. */
extern void shim_scheduler_pace(int points, int drift);

/* One process (-1: none) takes longer by this factor, and others go on meanwhile. */
extern void shim_scheduler_slow(int process, int factor);

/* Play until the world is over, or a rule is broken. */
extern void shim_scheduler_run(void);

/*
 * Begin a process in a place, 0 to SHIM_MAX_PROCESSES - 1, of a server, which is
 * process `procno` of it.  Returns its pid.  `main` is a function of the library:
 * void main(int procno, int pid).
 */
extern int	shim_scheduler_begin(int process, int server, int procno,
								 const char *main);

/* It is gone at once, with all that its copy of the library had. */
extern void shim_scheduler_kill(int process);

/* The server's shared memory is made anew by whoever comes first. */
extern void shim_scheduler_forget_areas(int server);

/* The process stands still until then. */
extern void shim_scheduler_stop(int process, int64_t until);
extern bool shim_scheduler_is_stopped(int process);

/* The same, or until when it has done so last; 0: it has not. */
extern int64_t shim_scheduler_stopped_until(int process);

/* Have trapped() called at the nth point of the process after so many wake-ups. */
extern void shim_scheduler_trap(int process, int wakes, int points);

/* The process that runs, if any, does not go on with what is broken. */
extern void shim_scheduler_give_up(void);

extern bool shim_scheduler_signal(int process, int signal);
extern bool shim_scheduler_is_there(int process);

/* Does it sleep, with nothing that would wake it? */
extern bool shim_scheduler_is_asleep(int process);
extern int	shim_scheduler_pid(int process);

/* The one that runs, or -1; its server. */
extern int	shim_scheduler_current(void);
extern int	shim_scheduler_server(int process);
extern int	shim_scheduler_procno(int process);

/* A function of a process's copy of the library. */
extern void *shim_scheduler_find(int process, const char *name);

/* Something can be read at its descriptor. */
extern void shim_scheduler_ring(int process);

/* How many points there were in this schedule. */
extern uint64_t shim_scheduler_points(void);

/* Has anything been written beside shared memory? */
extern bool shim_scheduler_areas_are_whole(void);

#endif							/* SHIM_SCHEDULER_H */
