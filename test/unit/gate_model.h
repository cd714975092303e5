/*-------------------------------------------------------------------------
 *
 * gate_model.h
 *	  A model of a server whose backends share a session behind gates.
 *
 * A server consists of its shared memory, its backends and its worker. The
 * worker runs the recipe over a simulated client, as sim_driver.c does for a
 * backend with its own session; gate.c itself makes the decisions of gates.
 * Each part of an operation between two accesses to shared memory is a
 * separate step: especially those of a commit, see gate_backend.c, and the
 * decisions and actions of the worker, see gate_worker.c.
 *
 * Each node in ZooKeeper belongs to a place. There is one place for each lock
 * in mode exclusive or write, of all backends; and one for each backend and
 * queue, for its reader's node, behind a gate without other backends.
 *
 * Time is sim.now. The ensemble keeps a session for `timeout` after its last
 * message. The session can be relied on for a third of that, from the time
 * when an answered write was sent.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GATE_MODEL_H
#define GATE_MODEL_H

#include "protocol/gate.h"
#include "sim.h"
#include "sim_driver.h"

#define GATE_MAX_SERVERS 3
#define GATE_MAX_BACKENDS 4
#define GATE_N_QUEUES 3
#define GATE_N_SLOTS (GATE_N_QUEUES * (2 + GATE_MAX_BACKENDS))
#define GATE_NEVER (INT64_MIN / 2)

/* Properties in addition to those of sim.h */
typedef enum GateProperty
{
	GATE_COMMIT = SIM_N_PROPERTIES,
	GATE_OVERLAP,
	GATE_CLOSE,
	GATE_EXCLUSION,
	GATE_PAIRS,
	GATE_PARAMS,
	GATE_WINDOW,
	GATE_USE,
	GATE_TRIES,
	GATE_GRANTS,
	GATE_TOLD,
	GATE_ONE_SESSION,
	GATE_SOUND,
	GATE_STATE,
	GATE_REST,
	GATE_TURN,
	GATE_N_PROPERTIES
} GateProperty;

/* Events that the schedules count, as in sim.h; descriptions in gate_sim.c. */
typedef enum GateCount
{
	GATE_N_PASSED = SIM_N_COUNTS,
	GATE_N_WINDOW_OVER,
	GATE_N_UNFIT,
	GATE_N_HANDOVERS_FORBIDDEN,
	GATE_N_NOBODY_LEFT,
	GATE_N_LATE,
	GATE_N_HELD_BACK,
	GATE_N_TRY_AT_ONCE,
	GATE_N_TRY_QUEUED,
	GATE_N_FAILED,
	GATE_N_TIMEOUTS,
	GATE_N_TIMEOUT_GRANTED,
	GATE_N_CANCELS,
	GATE_N_CANCEL_GRANTED,
	GATE_N_EXITS,
	GATE_N_EXPIRED,
	GATE_N_STALE,
	GATE_N_REJOINED,
	GATE_N_ORPHANS,
	GATE_N_NODES_DELETED,
	GATE_N_SEVERAL,
	GATE_N_GIVEN_BACK,
	GATE_N_STARTED_OVER,
	GATE_N_READERS,
	GATE_N_DOWNGRADES,
	GATE_N_NO_GROUND,
	GATE_N_OUTLIVED,
	GATE_N_COMMITS,
	GATE_N_REFUSED,
	GATE_N_ASKED,
	GATE_N_UNANSWERED,
	GATE_N_FLAGS_AWAITED,
	GATE_N_RETIRED,
	GATE_N_DEATHS,
	GATE_N_RESTARTS,
	GATE_N_STOPS,
	GATE_N_LOST_POKES,
	GATE_N_LONG_WAITS,
	GATE_N_COUNTS
} GateCount;

typedef struct GateServer GateServer;
typedef struct GateBackend GateBackend;

typedef struct GateSlot
{
	GateServer *server;
	SimDir		dir;
	ZkLockMode	mode;

	/* in shared memory, under one lock */
	ZkLockGate	gate;
	char		node[SIM_NAME_SIZE];	/* the last that was granted */
	char		from[SIM_NAME_SIZE];	/* of a downgrade; "": no downgrade */
	uint64_t	from_generation;

	/* the worker's; its attempt has the same number */
	uint64_t	had;			/* serial of the node that exists, or may exist, or 0 */
	bool		told_verdict;
	bool		told_queued;
	int			former;			/* the node given up last, or -1 */
	char		former_prefix[SIM_PREFIX_SIZE];
	int64_t		begun_at;

	/* for the checker: node that was granted last */
	int64_t		token;
	int64_t		number;
	int64_t		since;
	bool		read_under;
} GateSlot;

/* A backend's part in one lock */
typedef struct GateClaim
{
	GateBackend *backend;
	GateSlot  *slot;
	ZkLockTurn	turn;
	char		node[SIM_NAME_SIZE];

	/* for the checker */
	uint64_t	arrival;		/* as a ticket; 0: wants no node */
	bool		was_there;		/* its node when the commit read the clock */
} GateClaim;

typedef enum GateState
{
	GATE_IDLE,
	GATE_JOINING,				/* one claim at a time */
	GATE_ASLEEP,				/* until its latch is set */
	GATE_AWAKE,					/* has to read its state */
	GATE_TIMING_OUT,			/* has seen no change */
	GATE_SETTLING,				/* of several locks, releases the later ones */
	GATE_STARTING_OVER,			/* releases locks that are not lost */
	GATE_WORKING,
	GATE_READING,				/* waits for its downgrade */
	GATE_TO_FLAG,				/* commit: sets the flag, */
	GATE_TO_LOOK_AT_CLOCK,		/* reads the last confirmation, */
	GATE_TO_LOOK_AT_GENERATION, /* reads the generation, */
	GATE_TO_DECIDE,
	GATE_ASKING,				/* the lease is over */
	GATE_COMMITTING,			/* has passed the check */
	GATE_COMMITTED,				/* the flag is still set */
	GATE_DELETING
} GateState;

struct GateBackend
{
	GateServer *server;
	int			number;
	GateState	state;
	int			tasks_left;
	bool		stays;			/* commits more than once */
	int			awake_at;		/* suspended up to this step */

	/* wanted locks: one, or several */
	ZkLockMode	mode;
	bool		nowait;
	int			n;
	GateClaim	claims[SIM_MAX_LOCKS + 1];	/* the last one is a downgrade */
	int			pos;
	int			nheld;
	bool		alone;			/* only the next one is waited for */
	uint64_t	generation;		/* session of the acquired locks */
	bool		deadline;		/* is over */
	bool		fresh;			/* as the commit has read it: the lease, */
	bool		good;			/* and the held locks */

	/* in shared memory */
	bool		latch;
	uint64_t	flag;			/* commits in this generation; 0: does not */
	bool		asking;			/* requests a confirmation of the lease */
};

typedef enum GateWorker
{
	GATE_W_DEAD,
	GATE_W_NEW,
	GATE_W_TELLING,				/* notifies all places that a session is over */
	GATE_W_FLAGS,				/* waits for commits in it */
	GATE_W_CLOSING,
	GATE_W_CONNECTING,
	GATE_W_SERVING
} GateWorker;

struct GateServer
{
	int			number;
	int64_t		timeout;		/* of its sessions */
	int64_t		window;
	int			downgrades;		/* percent of its chances to commit */

	/* shared memory */
	uint64_t	generation;
	int64_t		confirmed;
	bool		latch_known;	/* the worker's */
	int			nbackends;
	GateBackend backends[GATE_MAX_BACKENDS];
	GateSlot	slots[GATE_N_SLOTS];
	int			session;		/* outlives a restart; -1: none yet */

	/* the worker */
	GateWorker	worker;
	bool		stopped;
	bool		poked;
	int			scan;			/* the next place to check for a wanted node */
	int			news;			/* and for a verdict */
	bool		held_back;		/* a step had to be postponed */
	int64_t		confirm_sent;
	int			confirm_connects;
	SimRunner	runner;

	uint64_t	last_arrival;	/* for the checker */
};

extern void gate_server_init(GateServer *s, int number, int nbackends,
							 int tasks, int64_t timeout, int64_t window,
							 int downgrades);

/* Is the lease valid? If so, a holder may hand the lock over, and commit. */
extern bool gate_is_fresh(const GateServer *s);

/* Makes the worker check the wanted nodes. */
extern void gate_poke(GateServer *s);

/* A turn has changed: sets the latch of its backend. */
extern void gate_tell(ZkLockTurn *turn, void *arg);

/* Backends. False: there was nothing to do, or the step does not apply. */
extern bool gate_backend_begin(GateBackend *b, int n, const SimDir *dirs,
							   ZkLockMode mode, bool nowait);
extern bool gate_backend_step(GateBackend *b);
extern bool gate_backend_work(GateBackend *b);
extern bool gate_backend_deadline(GateBackend *b);
extern bool gate_backend_cancel(GateBackend *b, bool exit);
extern bool gate_backend_give_up_asking(GateBackend *b);

/* The worker. */
extern bool gate_worker_step(GateServer *s);
extern bool gate_worker_inspect(GateServer *s, int slot);
extern bool gate_worker_retire(GateServer *s);
extern bool gate_worker_die(GateServer *s);
extern bool gate_worker_start(GateServer *s);
extern bool gate_server_restart(GateServer *s);

#endif							/* GATE_MODEL_H */
