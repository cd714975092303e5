/*-------------------------------------------------------------------------
 *
 * sim.h
 *	  Common parts of the simulations: random numbers, trace, verdict, counts.
 *
 * A schedule is a function of its seed alone: every choice is drawn from
 * sim_random(), and does not depend on anything else (time, addresses,
 * hashes). The same seed of the same program plays the same schedule on any
 * machine. A program may put choices of its own in the place of the draws.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The properties; each violation is reported under its name in sim.c. Another
 * simulation continues the numbers, as it does for the counted events.
 */
typedef enum SimProperty
{
	SIM_KEPT,					/* no violation */
	SIM_EXCLUSION,
	SIM_LIMIT,
	SIM_PROGRESS,
	SIM_ORDER,
	SIM_NO_LEAK,
	SIM_ONE_NODE,
	SIM_TOLD_NODES,
	SIM_TWO_WATCHES,
	SIM_TOKEN_IS_CZXID,
	SIM_TOKENS_GROW,
	SIM_LOOKS,
	SIM_SOUND,
	SIM_N_PROPERTIES
} SimProperty;

/* Events that the schedules count; descriptions in sim.c. */
typedef enum SimCount
{
	/* the ensemble */
	SIM_N_STALE_LISTS,
	SIM_N_ORPHANS,
	SIM_N_BEHIND,
	SIM_N_REWATCH_FIRED,
	SIM_N_REAPED,
	SIM_N_RECREATED,
	SIM_N_WRAPPED,
	/* the client */
	SIM_N_LOSSES,
	SIM_N_UNSENT_LOST,
	SIM_N_UNSENT_KEPT,
	SIM_N_EXPIRIES,
	SIM_N_CRASHES,
	SIM_N_ABANDONED,
	SIM_N_DELETE_RETRIES,
	SIM_N_GHOSTS,
	SIM_N_SPARED,
	SIM_N_DOWNGRADES,
	SIM_N_ALL,
	SIM_N_GIVEN_BACK,
	/* the recipe */
	SIM_N_AT_ONCE,
	SIM_N_BY_LIST,
	SIM_N_DIRECT,
	SIM_N_LOOKAHEAD,
	SIM_N_RELISTS,
	SIM_N_CHANGED,
	SIM_N_TOLD,
	SIM_N_TOUCHES,
	SIM_N_SIMPLE,
	SIM_N_SIMPLE_FOUND,
	SIM_N_LEASES,
	SIM_N_LEASE_WAITS,
	SIM_N_COUNTED,
	SIM_N_COUNT_NEWS,
	SIM_N_COUNT_OVERTAKES,
	SIM_N_COUNT_LATE,
	SIM_N_NO_COUNT,
	SIM_N_WATCH_MISSED,
	SIM_N_RECOVERIES,
	SIM_N_ADOPTIONS,
	SIM_N_RECREATES,
	SIM_N_VERIFY_GONE,
	SIM_N_VERIFY_FOREIGN,
	SIM_N_DROPS,
	SIM_N_NODES_DELETED,
	SIM_N_NOWAIT,
	SIM_N_LOOKS_REFUSED,
	SIM_N_LOOKS_FREE,
	SIM_N_LOOKS_YIELDING,
	SIM_N_LOOKS_AGAIN,
	SIM_N_DEADLINES,
	SIM_N_CANCELS,
	SIM_N_EXHAUSTED,
	SIM_N_DENIED,
	SIM_N_LEFT_OUT,
	SIM_N_MISSED,
	SIM_N_TOO_MANY,
	SIM_N_COUNTS
} SimCount;

#define SIM_MAX_NAMES 160

typedef struct Sim
{
	uint64_t	random;
	uint32_t	(*choose) (uint32_t n); /* in place of draws; NULL: nothing is */
	bool		verbose;
	bool		quiet;			/* no more faults: the schedule comes to rest */
	int64_t		now;			/* the clock, if it is used */
	bool		reuse_prefix;	/* drivers keep the prefix in a new session */
	int			break_percent;	/* of connections, at each request */
	bool		refusals;		/* the server refuses some requests */
	int			first_number;	/* where the lock paths' counters start */
	int			crowded;		/* percent of look-aheads that are not watched */
	bool		counted;		/* the number of leases is stored in a node */
	int			leases;			/* of the semaphore, otherwise */
	int			broken;			/* a property, or SIM_KEPT */
	char		message[256];
	uint64_t	counts[SIM_MAX_NAMES];
} Sim;

extern Sim	sim;

/*
 * The simulation that sim_main.c makes a program of; a name that is NULL is
 * not used.
 */
typedef struct SimProgram
{
	void		(*play) (uint64_t seed);
	const char *const *properties;
	int			nproperties;
	int			sound;			/* the property that a failed assertion
								 * violates */
	const char *const *counts;
	int			ncounts;

	/* Fewer schedules than this need not reach every path. */
	uint64_t	enough;

	/*
	 * An option of its own, with its value; may be NULL.  False: there is
	 * none.
	 */
	bool		(*set_option) (const char *name, const char *value);

	/*
	 * Plays something else than seeds, if the options ask for that: sets the
	 * exit code.  May be NULL.
	 */
	bool		(*play_other) (const char *program, const char *mutant, int *code);

	/*
	 * Called for a failed assertion, and does not return if it ends the
	 * schedule itself; may be NULL.
	 */
	void		(*give_up) (void);
} SimProgram;

extern const SimProgram sim_program;

/* Must be called first in a schedule. */
extern void sim_seed(uint64_t seed);

/* Plays a schedule; what it violates is in sim.broken. */
extern void sim_play(void (*play) (uint64_t seed), uint64_t seed);

/* 0 .. n - 1 */
extern uint32_t sim_random(uint32_t n);

/* The same where nothing depends on it, as for names */
extern uint32_t sim_noise(uint32_t n);

extern bool sim_percent(uint32_t chance);

/*
 * Only the first violation of a schedule counts, later ones are its
 * consequences.
 */
extern void sim_breach(int property, const char *fmt,...)
			__attribute__((format(printf, 2, 3)));

/* A fixed-size table of the simulation itself is too small. */
extern void sim_overflow(const char *what) __attribute__((noreturn));

extern void sim_print(const char *fmt,...)
			__attribute__((format(printf, 1, 2)));

/* A line of the schedule, for --verbose. */
#define sim_trace(...) \
	do { \
		if (sim.verbose) \
			sim_print(__VA_ARGS__); \
	} while (0)

#define sim_count(which) (sim.counts[which]++)

#endif							/* SIM_H */
