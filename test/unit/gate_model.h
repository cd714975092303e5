/*-------------------------------------------------------------------------
 *
 * gate_model.h
 *	  A model of a server whose backends share a session behind gates.
 *
 * A server is its shared memory, its backends and its worker.  The worker runs
 * the recipe over a simulated client, as sim_driver.c does for a backend with a
 * session of its own; what the gates decide is decided by gate.c itself.  All
 * that may happen between two looks at shared memory is a step of its own: those
 * of a commit above all, see gate_backend.c, and of the worker's decisions and
 * deeds, see gate_worker.c.
 *
 * What stands in ZooKeeper stands for a place.  There is one for each lock in
 * mode exclusive or write, of all backends; and one for each backend and queue,
 * for its reader's node, behind a gate that nobody else is at.
 *
 * Time is sim.now.  A session that the ensemble has heard of lives for `timeout`
 * from then on, and is good for a third of that from when a write was sent that
 * has been answered.
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

/* What is promised beyond the properties of sim.h. */
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
	GATE_REST,
	GATE_TURN,
	GATE_N_PROPERTIES
} GateProperty;

/* What the schedules went through, as in sim.h; descriptions in gate_sim.c. */
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
	char		from[SIM_NAME_SIZE];	/* a downgrade's; "": it is none */
	uint64_t	from_generation;

	/* the worker's; its attempt has the same number */
	uint64_t	had;			/* serial of what stands, or may, or 0 */
	bool		told_verdict;
	bool		told_queued;
	int			former;			/* the node it left last, or -1 */
	char		former_prefix[SIM_PREFIX_SIZE];
	int64_t		begun_at;

	/* the judge's, of the node that was granted last */
	int64_t		token;
	int64_t		number;
	int64_t		since;
	bool		read_under;
} GateSlot;

/* A backend's part in one lock. */
typedef struct GateClaim
{
	GateBackend *backend;
	GateSlot  *slot;
	ZkLockTurn	turn;
	char		node[SIM_NAME_SIZE];

	/* the judge's */
	uint64_t	arrival;		/* as a ticket; 0: wants nothing */
	bool		was_there;		/* its node, when the commit looked at the clock */
} GateClaim;

typedef enum GateState
{
	GATE_IDLE,
	GATE_JOINING,				/* one claim at a time */
	GATE_ASLEEP,				/* until its latch is set */
	GATE_AWAKE,					/* to look what has come */
	GATE_TIMING_OUT,			/* has seen that nothing had */
	GATE_SETTLING,				/* of several locks, gives back the later ones */
	GATE_STARTING_OVER,			/* gives back what is not lost */
	GATE_WORKING,
	GATE_READING,				/* waits for its downgrade */
	GATE_TO_FLAG,				/* commit: the flag, */
	GATE_TO_LOOK_AT_CLOCK,		/* what is confirmed, */
	GATE_TO_LOOK_AT_GENERATION, /* which session it is, */
	GATE_TO_DECIDE,
	GATE_ASKING,				/* the lease is over */
	GATE_COMMITTING,			/* the check is passed */
	GATE_COMMITTED,				/* the flag is still up */
	GATE_DELETING
} GateState;

struct GateBackend
{
	GateServer *server;
	int			number;
	GateState	state;
	int			tasks_left;
	bool		stays;			/* commits more than once */
	int			awake_at;		/* it stands still up to this step */

	/* what is wanted: one lock, or several */
	ZkLockMode	mode;
	bool		nowait;
	int			n;
	GateClaim	claims[SIM_MAX_LOCKS + 1];	/* the last is a downgrade's */
	int			pos;
	int			nheld;
	bool		alone;			/* only the next one is waited for */
	uint64_t	generation;		/* in which it has taken what it has */
	bool		deadline;		/* is over */
	bool		fresh;			/* as the commit has found it: the lease, */
	bool		good;			/* and what is held */

	/* in shared memory */
	bool		latch;
	uint64_t	flag;			/* commits in this generation; 0: does not */
	bool		asking;			/* wants the lease to be confirmed */
};

typedef enum GateWorker
{
	GATE_W_DEAD,
	GATE_W_NEW,
	GATE_W_TELLING,				/* all places that a session is over */
	GATE_W_FLAGS,				/* waits for those who commit in it */
	GATE_W_CLOSING,
	GATE_W_CONNECTING,
	GATE_W_SERVING
} GateWorker;

struct GateServer
{
	int			number;
	int64_t		timeout;		/* of its sessions */
	int64_t		window;
	int			downgrades;		/* percent of its chances to do so */

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
	int			scan;			/* the next place to look at: what is wanted? */
	int			news;			/* and to look at: what has come of it? */
	bool		held_back;		/* something could not be done yet */
	int64_t		confirm_sent;
	int			confirm_connects;
	SimRunner	runner;

	uint64_t	last_arrival;	/* the judge's */
};

extern void gate_server_init(GateServer *s, int number, int nbackends,
							 int tasks, int64_t timeout, int64_t window,
							 int downgrades);

/* Within the lease?  Whoever holds may pass it on, and commit. */
extern bool gate_is_fresh(const GateServer *s);

/* Have the worker look at what is wanted. */
extern void gate_poke(GateServer *s);

/* A turn's news: its backend's latch is set. */
extern void gate_tell(ZkLockTurn *turn, void *arg);

/* Backends.  False: there was nothing to do, or it does not apply. */
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
