/*-------------------------------------------------------------------------
 *
 * server_ensemble.h
 *	  ZooKeeper's servers, for the simulation of whole servers: what the leader is told of a
 *	  session, and when it ends it.
 *
 * The leader ends a session of which it was not told for the session's timeout, at the next
 * tick after that.  It is told of a session
 *	- when the session begins, and when its client connects, to whichever server;
 *	- by each request and ping of a client that is connected to the leader itself;
 *	- when a follower answers a ping of the leader: of each client that the follower has
 *	  heard since its last answer.  The leader pings each half tick; an answer may be late
 *	  by up to a 24th of the timeout.
 * A write that a follower forwards tells it nothing.
 *
 * What can happen to the servers, one thing at a time:
 *	- A follower, or the leader, stands still.  When the leader goes on, it ends sessions and
 *	  does what it was asked for meanwhile in any order.
 *	- A follower is cut off from the leader.  It answers pings and reads, and writes wait,
 *	  until the sync limit is over.  Then it hangs up, and serves nobody until it has a leader
 *	  again.  No read is stale here: it answers reads until something is changed.
 *	- Another leader is elected, which gives each session its whole timeout.  All connections
 *	  are lost, except those to the former leader if that does not notice: then it is like a
 *	  follower that is cut off, and it accepts connections, too.
 *
 * Excluded is what proof.h excludes: a session was not heard for long, then it was answered,
 * and the leader stands still for a short time before it is told of that.  Such a session
 * ends before the leader does what was sent last (server_ensemble_is_refused()).  And a leader
 * that goes on hears all followers before it stands still again.
 *
 * What only shifts moments is drawn from numbers of its own, so that it is no decision of a
 * scenario.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_ENSEMBLE_H
#define SERVER_ENSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#define SERVER_N_MEMBERS 3

/* What the servers know of a session, all zero before it begins */
typedef struct ServerTracker
{
	int64_t		told_at;		/* when the leader was told of it last */
	int64_t		heard_at;		/* when any server has heard it last */
	bool		was_silent;		/* for long, since the leader was told of it */
	bool		unsaid[SERVER_N_MEMBERS];	/* heard since the last answer */
	int64_t		race;			/* ns until it is ended by a leader that has
								 * stood still */
	bool		is_excluded;	/* see above */
} ServerTracker;

/* Times in ns: the timeout of all sessions, a tick, and the sync limit */
extern void server_ensemble_reset(uint64_t seed, int64_t timeout, int64_t tick,
								  int64_t sync_limit);

extern int	server_ensemble_leader(void);

/* Is there a leader that does not stand still? */
extern bool server_ensemble_is_working(void);

/* Can a server and its clients hear each other?  Has it hung up? */
extern bool server_ensemble_is_heard(int member);
extern bool server_ensemble_is_out(int member);

/* Is it cut off, or deposed?  The last change that it knows of then */
extern bool server_ensemble_is_cut_off(int member);
extern int64_t server_ensemble_known(int member);

/* Does it have writes carried out?  And reads, if `zxid` is the last change? */
extern bool server_ensemble_writes(int member);
extern bool server_ensemble_reads(int member, int64_t zxid);

/* Does it accept the connection of a new session, or of another one?  It has done so. */
extern bool server_ensemble_accepts(int member, bool is_new);
extern void server_ensemble_connected(int member, ServerTracker *tracker);

/* It hears a session. */
extern void server_ensemble_hears(int member, ServerTracker *tracker, int64_t at);

/*
 * The next follower that answers a ping until then, and when it does; -1: none.  Each answer
 * is returned once, and tells of sessions:
 */
extern int	server_ensemble_answer(int64_t until, int64_t *at);
extern void server_ensemble_tell(int member, ServerTracker *tracker, int64_t at);

/*
 * When is the session ended, unless the leader is told of it?  And if it is told of what was
 * heard?
 */
extern int64_t server_ensemble_ends_at(const ServerTracker *tracker);
extern int64_t server_ensemble_foresees(const ServerTracker *tracker);

/* Must what was sent then wait until the session has ended, or the leader is told of it? */
extern bool server_ensemble_is_refused(const ServerTracker *tracker, int64_t sent);

/* When something changes by itself */
extern int64_t server_ensemble_next(void);

/*
 * Faults.  False: there is another one.  After the first one, if it was the leader, each
 * session has to be noted, as after the last one.
 */
extern bool server_ensemble_stop(int member, int64_t until);
extern void server_ensemble_note_stop(ServerTracker *tracker);
extern bool server_ensemble_cut_off(int member, int64_t until, int64_t zxid);

/*
 * The next leader begins at a time.  The former one does not notice before another time, or at
 * once if that is 0.
 */
extern bool server_ensemble_elect(int64_t begins, int64_t noticed, int64_t zxid);
extern void server_ensemble_note_leader(ServerTracker *tracker);

#endif							/* SERVER_ENSEMBLE_H */
