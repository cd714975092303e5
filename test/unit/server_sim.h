/*-------------------------------------------------------------------------
 *
 * server_sim.h
 *	  The simulation of whole servers: what its parts share.
 *
 * The code of shared/, worker/, session/ and protocol/, of most of backend/, and of
 * advisory/hold.c and client/zkroom.c runs as it is: a worker and backends for each server, as
 * processes of a scheduler that a seed decides (shim/scheduler.h).  Shims stand for PostgreSQL
 * (shim/), and one client of a model of ZooKeeper for the rest of client/ (server_zk.h,
 * server_ensemble.h).  It is compiled with PostgreSQL's headers into a library; the rest is
 * the program, which knows nothing of it.
 * Programs of backends are in server_backend.c; what is checked, in server_check.c, for
 * gates in server_gates.c, for tries in server_tries.c, for more in server_rules.c, and when
 * all sleep in server_look.c.  In some schedules servers copy each other's data (server_data.h),
 * and locks catch up: server_catchup.c stands for backend/catchup.c.
 *
 * Backends use the session of their server, or have their own: in some schedules all do
 * the one or the other, and in some each backend does as it is drawn, and changes that.
 *
 * A schedule is drawn from a seed, or it is one of a scenario (server_scenario.h) that differs
 * from the default one in one place (server_choice.h, server_exhaust.h).
 *
 * Not in here: locks of PostgreSQL; statement.c, whose hooks server_backend.c calls as it
 * does; fences, SQL and all that looks at queues; the settings' rules; the threads of a
 * client.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_SIM_H
#define SERVER_SIM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/numbers.h"
#include "sim.h"

/* Places for processes, of all servers; the first of each server is its worker's. */
#define SERVER_MAX_SERVERS 3
#define SERVER_MAX_BACKENDS 6
#define SERVER_PLACES (1 + SERVER_MAX_BACKENDS)
#define SERVER_MAX_PLACES (SERVER_MAX_SERVERS * SERVER_PLACES)

#define SERVER_MAX_PATHS 3

/* A lock's number is that of its path and, as so many paths, of its kind. */
enum
{
	SERVER_QUEUE,
	SERVER_SEMAPHORE,
	SERVER_COUNTED,
	SERVER_SIMPLE,
	SERVER_N_KINDS
};

#define SERVER_N_LOCKS (SERVER_N_KINDS * SERVER_MAX_PATHS)

/* Paths of zklock.leaders, whose numbers follow those of locks */
#define SERVER_LEADERS_A "/leaders/a"
#define SERVER_LEADERS_B "/leaders/b"
#define SERVER_N_LEADERS 2

/* The count of all counted semaphores, and what their paths end with */
#define SERVER_COUNT "/count"
#define SERVER_COUNTED_END "-counted"

/* The largest zklock.max_locks */
#define SERVER_MAX_LOCKS 40

/* What a client's threads send: no other one does, so that cancels of users are known. */
#define SERVER_LOSS_SIGNAL SIGUSR1

/* What its timers send to disconnect a client, as session.c asks for */
#define SERVER_DISCONNECT_SIGNAL SIGRTMIN

/* When the clock starts, in nanoseconds, and what a millisecond is */
#define SERVER_BEGIN INT64_C(1000000000000)
#define SERVER_MS INT64_C(1000000)

enum
{
	SERVER_COMMIT = SIM_N_PROPERTIES,
	SERVER_THERE,
	SERVER_HOLD,
	SERVER_PAIRS,
	SERVER_TICKETS,
	SERVER_WINDOW,
	SERVER_GATE,
	SERVER_TRIES,
	SERVER_DEADLINE,
	SERVER_RECALL,
	SERVER_KEPT,
	SERVER_READERS,
	SERVER_LAST,
	SERVER_WOKEN,
	SERVER_PROGRESS,
	SERVER_CLOSE,
	SERVER_CANCEL,
	SERVER_CLIENT,
	SERVER_DEADLOCK,
	SERVER_OWN,
	SERVER_WATCHES,
	SERVER_REST,
	SERVER_SIZE,
	SERVER_CREATING,
	SERVER_LISTS,
	SERVER_MEMORY,
	SERVER_DATA,
	SERVER_LEADS,
	SERVER_SOUND,
	SERVER_N_PROPERTIES
};

enum
{
	SERVER_N_GRANTS = SIM_N_COUNTS,
	SERVER_N_OWN_GRANTS,
	SERVER_N_OWN_EXPIRED,
	SERVER_N_OWN_REVOKED,
	SERVER_N_OWN_REFUSED,
	SERVER_N_OWN_IDLE,
	SERVER_N_OWN_GONE,
	SERVER_N_PASSED,
	SERVER_N_TIMEOUTS,
	SERVER_N_DEADLOCKS,
	SERVER_N_DEADLOCKS_ACROSS,
	SERVER_N_CYCLES,
	SERVER_N_TRIES,
	SERVER_N_LOOKS_REFUSED,
	SERVER_N_LOOKS_FREE,
	SERVER_N_LOOKS_YIELDING,
	SERVER_N_LOOKS_NAMED,
	SERVER_N_BRIEF,
	SERVER_N_LOCK_TIMEOUTS,
	SERVER_N_CANCELS,
	SERVER_N_CAUGHT,
	SERVER_N_RELEASED_ALL,
	SERVER_N_TERMINATED,
	SERVER_N_ERRORS,
	SERVER_N_COMMITS,
	SERVER_N_REFUSED,
	SERVER_N_LOST,
	SERVER_N_DISCONNECTED,
	SERVER_N_SAVEPOINTS,
	SERVER_N_SEMAPHORES,
	SERVER_N_COUNTED,
	SERVER_N_COUNTS,
	SERVER_N_NO_COUNT,
	SERVER_N_ALL,
	SERVER_N_DOWNGRADES,
	SERVER_N_RIVALS,
	SERVER_N_CUTS,
	SERVER_N_AT_FOLLOWERS,
	SERVER_N_MOVED,
	SERVER_N_MEMBERS_STOPPED,
	SERVER_N_CUT_OFF,
	SERVER_N_ELECTIONS,
	SERVER_N_LULLS,
	SERVER_N_FALTERS,
	SERVER_N_BEATS,
	SERVER_N_LEFT,
	SERVER_N_LATE_ANSWERS,
	SERVER_N_GONE,
	SERVER_N_RESTING,
	SERVER_N_EXPIRED,
	SERVER_N_SESSIONS_REFUSED,
	SERVER_N_CARRIED_ON,
	SERVER_N_CLOSED,
	SERVER_N_WORKERS_ENDED,
	SERVER_N_WORKERS_FAILED,
	SERVER_N_CRASHES,
	SERVER_N_RELOADS,
	SERVER_N_STOPS,
	SERVER_N_UNCONFIRMED,
	SERVER_N_LAGS,
	SERVER_N_OUT_OF_MEMORY,
	SERVER_N_ROBBED,
	SERVER_N_REVOKED,
	SERVER_N_WATCHES_REFUSED,
	SERVER_N_LISTS_PUT_OFF,
	SERVER_N_NODES_REFUSED,
	SERVER_N_NODES_WAITED,
	SERVER_N_DELETES_REFUSED,
	SERVER_N_PATHS_WAITED,
	SERVER_N_FORMER,
	SERVER_N_KEPT,
	SERVER_N_REGRANTED,
	SERVER_N_BEYOND,
	SERVER_N_RECALLED_KEPT,
	SERVER_N_RECALLED_HELD,
	SERVER_N_UNUSED,
	SERVER_N_DOUBTED,
	SERVER_N_KEPT_DELETED,
	SERVER_N_UNFIT,
	SERVER_N_MADE_ROOM,
	SERVER_N_LOST_EVENTS,
	SERVER_N_JOINED,
	SERVER_N_SENT_AWAY,
	SERVER_N_SHUT,
	SERVER_N_READERS_DELETED,
	SERVER_N_READERS_REVOKED,
	SERVER_N_CAUGHT_UP,
	SERVER_N_NOT_CAUGHT_UP,
	SERVER_N_GUARDED,
	SERVER_N_RESIGNED,
	SERVER_N_END
};

/* What is drawn for a schedule. */
typedef struct ServerPlan
{
	int			nservers;
	int			nbackends;		/* of each */
	int			own;			/* percent of them with a session of their own */
	bool		busy;			/* one statement follows the other */
	int			npaths;
	int			nleases;		/* of each semaphore */
	int			ntransactions;	/* of each backend */
	int			gates;			/* flags, as ints: server_shrink.c reduces
								 * them */
	int			keeps;			/* locks that nobody uses */
	int			modes;			/* others than exclusive locks, too */
	int			readers;		/* mostly such */
	int			many;			/* locks at a time */
	int			faults;
	bool		planned;		/* only those that end sessions on purpose */
	bool		failing;		/* only those that end workers */
	bool		doubting;		/* only those that lose events of locks that
								 * are kept */
	int			out_of_memory;	/* of so many allocations one fails; 0: none */
	bool		ensemble;		/* has its servers among the faults */
	bool		one_host;		/* clients know of one of them, as if a proxy
								 * was there */
	int			session_timeout;	/* ms, of all sessions */
	int			tick;			/* ms */
	int			sync_limit;		/* ms */
	int			session_size;	/* limit of a session's nodes, in kB */
	int			chroot_len;		/* of the path that is ahead of all nodes */
	int			refuses;		/* percent of deletes that are refused */
	int			no_spares;		/* so many watches of look-aheads are refused
								 * first, in each session's client */
	int			no_parents;		/* so many requests for the parent of records
								 * lose the connection, likewise */
	int			suspension;		/* ms for which a process stands still at
								 * least, if time passes meanwhile */
	int			impatience;		/* percent of short waits */
	bool		detects;		/* all deadlocks: no other client is in one */
	bool		across;			/* ... by records only, maybe */
	int			slow_commits;	/* percent */
	int			copies;			/* ms in which a server has to show what
								 * others commit; 0: they do not copy it */
	int			leads;			/* servers campaign, and backends guard
								 * transactions */
} ServerPlan;

extern ServerPlan server_plan;

/*
 * What a backend does: a statement, what ends its transaction (from SERVER_DO_COMMIT on), or
 * what is done between transactions.
 */
typedef enum ServerVerb
{
	SERVER_DO_LOCK,
	SERVER_DO_LOCK_ALL,
	SERVER_DO_RELEASE,
	SERVER_DO_RELEASE_ALL,
	SERVER_DO_WORK,
	SERVER_DO_GUARD,
	SERVER_DO_RESIGN,
	SERVER_DO_SAVEPOINT,
	SERVER_DO_ROLLBACK_TO,
	SERVER_DO_COMMIT,
	SERVER_DO_ABORT,
	SERVER_DO_IDLE,
	SERVER_DO_SESSION,			/* from now on it has its own, if `of_session` */
	SERVER_DO_DISCONNECTS,		/* from now on, if a lock is lost */
	SERVER_DO_AUTO,				/* the same, if the client relies on a lock */
	SERVER_DO_ROLE,				/* that it has logged in as */
	SERVER_DO_EXIT
} ServerVerb;

typedef struct ServerStep
{
	ServerVerb	verb;
	int			mode;			/* a ZkLockMode */
	uint32_t	paths;			/* as bits by their numbers */
	bool		of_session;		/* the scope, or the kind of session */
	bool		counted;		/* the semaphore's leases are */
	bool		revocable;
	bool		asks;			/* who is ahead? */
	bool		paired;			/* PostgreSQL's own lock is taken, too */
	int			role;
	int64_t		patience;		/* ns; or how long it takes */
	int			lock_timeout;	/* ms; 0: none */
	bool		is_drawn;		/* what is not known yet */
} ServerStep;

/*
 * Of a scenario (server_scenario.h): the step that the backend has come to; NULL: what it
 * does is drawn.
 */
extern const ServerStep *server_step(void);
extern void server_next_step(void);

/*
 * What backends tell the checker.  A hold is known by the claim that it is of.  `alike`
 * is 0 for a writer, 1 for a reader, and n + 1 for one of n leases.  `current`: it is
 * taken for one in the present session.  `session` is shown as its session's id; 0: none is.
 */
extern void server_hold(const void *claim, int path, int alike, bool current,
						const char *node, ZkLockToken token, int64_t number,
						int64_t session);
extern void server_let_go(const void *claim);

/* Does the process with this pid hold the lock of this claim, and know that? */
extern bool server_is_held(const void *claim, int pid);

/* Its check is passed, and its effects are there. */
extern void server_commits(void);
extern void server_committed(void);

/* The same of a commit that a term guards, of one of SERVER_N_LEADERS paths, just before. */
extern void server_guarded(int leader, ZkLockToken token);

/*
 * The data of others (server_data.h): the positions of all servers now; when the current
 * process's server shows these.  It has got a lock, and has waited for such positions, if it
 * `catches_up`.  Was its server's last wait without success?
 */
extern void server_data_ask(int64_t *asked);
extern int64_t server_data_reached_at(const int64_t *asked);
extern void server_data_granted(int lock, bool catches_up);
extern bool server_data_is_behind(void);
extern void server_data_set_behind(bool behind);

/* Is it in a call for locks?  Is it one for one lock, in which a grant ends its sleep? */
extern void server_acquiring(bool on, bool one);

/* It begins a statement, or a commit; is that one for many locks? */
extern void server_begins(bool many);

/* It looks for what has cancelled its statement, and may stand still meanwhile. */
extern void server_explains(void);

/* It stands still for a moment, here where that matters; or not. */
extern void server_pauses(void);

/* It stands still while something happens to its locks, or not. */
extern void server_lags(void);

/* This process must not create a path yet. */
extern void server_path_waits(void);

/* The children of a path are listed, and watched: another client may come at once. */
extern void server_is_listed(void);

/* It looks for a verdict; when did it so last? */
extern void server_looks(void);
extern int64_t server_looked_at(void);

/* Its client is about to be disconnected. */
extern void server_disconnects(void);

/* It waits for one of these paths, as bits by their numbers; 0: not any more. */
extern void server_waits(uint32_t paths);

/*
 * Did these processes wait for these paths at one moment, each for one that the next one
 * had, or waited for?  A pid of 0 is not known.
 */
extern bool server_was_cycle(const int *pids, const int *paths, int n);

/* Was a process of its server stopped a moment ago? */
extern bool server_was_stopped(int process);

/*
 * Does a backend of its server exit, or has one a moment ago?  It releases its locks before it
 * gives up its attempts.
 */
extern bool server_has_exits(int process);

/* May the process hold locks in a session of its own that have no entry in the table? */
extern bool server_has_hidden_locks(int process);

/* Is the session that made a node alive, and its client connected? */
extern bool server_is_heard(int64_t czxid);

/*
 * When was it decided to end its wait because of a deadlock?  0: it is not.  Had that of
 * another process been decided at this time?
 */
extern void server_victim(int64_t decided_at);
extern bool server_was_victim(int procno, int64_t at);

/* Has anything happened that can end a session, except on purpose? */
extern bool server_may_be_lost(void);

/* No more faults: come to an end. */
extern bool server_is_quiet(void);

/*
 * Does another client wait for the lock of this path?  Has it done so for a while in which
 * nothing has kept the worker from its work?
 */
extern bool server_does_rival_wait(const char *path);
extern bool server_is_rival_overdue(const char *path);

/* ZooKeeper has a node without an owner that was missing. */
extern void server_parent_made(void);

/* This server's worker takes a request of a gate for the lock with this number. */
extern void server_attempt_taken(int lock);

/* Has a backend that requested the lock then, and does not want to wait, had no answer for too long? */
extern bool server_is_overdue(int lock, int64_t requested);

/* Has the node with this token been deleted by others for such a while? */
extern bool server_is_deletion_overdue(ZkLockToken token);

/* Is the node with this token there? */
extern bool server_is_there(ZkLockToken token);

/* Was it deleted by others so long ago that the worker knows it? */
extern bool server_is_deletion_known(ZkLockToken token);

/* Has it been deleted by others at all? */
extern bool server_is_deleted(ZkLockToken token);

/*
 * All sleep: does the worker know that the node with this name has been deleted, or should it?
 * And a backend asks its worker for a node.
 */
extern bool server_is_deletion_found(ZkLockToken token, const char *name);
extern void server_asks(void);

/*
 * Did something happen at this time, since then, and for such a while that this backend
 * knows it?  Or so long before that it was known then?
 */
extern bool server_is_known(int64_t at, int64_t began);
extern bool server_is_former(int64_t at, int64_t began);

/* Has this worker had no memory since then? */
extern bool server_has_failed(int64_t since);

/* Has this backend stood still until a moment ago, with its signals and its client's threads? */
extern bool server_has_stood_still(void);

/* Was the session of this backend's own lost since then, and for such a while? */
extern bool server_is_loss_overdue(int64_t began);

/* Was this backend told since then that a session of its own is gone?  It can come back. */
extern bool server_was_told_gone(int64_t since);

/*
 * Was a session of this backend's own refused since then, or one that never had a
 * connection?  That is reported once.
 */
extern bool server_take_refusal(int64_t since);

/* Was the node of this token created next to another one of the same server? */
extern bool server_is_next(ZkLockToken token);

/* What is published of the worker's session is about to change. */
extern void server_note_unconfirmed(void);

/* Is the next statement left out? */
extern bool server_omits(void);
extern void server_count(int which);
extern void server_breach(int property, const char *text);

/*
 * Of the library: what shared memory says, and whether anybody sleeps who should not.
 * `connected`: the worker sleeps, and has a session that is connected.  `is_short`: it may wait
 * for room in that session, and if `is_put_off`, until a list may begin.  Backends are bits
 * by their numbers: those of `asleep` that are `waiting` sleep in a call for one lock.
 * The answer is what is wrong, or NULL.
 */
typedef const char *(*ServerLook) (bool connected, bool is_short, bool is_put_off,
								   bool worker_sleeps, uint32_t waiting, uint32_t asleep);
extern const char *server_look_at_sleepers(bool connected, bool is_short, bool is_put_off,
										   bool worker_sleeps, uint32_t waiting, uint32_t asleep);

/*
 * The same for who has no room for a claim: which of the backends are in a call for locks,
 * and which are asleep.
 */
typedef const char *(*ServerLookAtRoom) (bool worker_sleeps, uint32_t acquiring, uint32_t asleep);
extern const char *server_look_at_room(bool worker_sleeps, uint32_t acquiring, uint32_t asleep);

/* The same: is the worker's session one for locks?  Its end may wait for commits. */
typedef bool (*ServerLookForSession) (void);
extern bool server_look_for_session(void);

/* The same of one process: has any of its locks this node? */
typedef bool (*ServerLookForNode) (const void *node);
extern bool server_look_for_node(const void *node);

/* Nobody has anything any more. */
extern const char *server_look_at_rest(void);

#endif							/* SERVER_SIM_H */
