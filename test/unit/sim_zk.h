/*-------------------------------------------------------------------------
 *
 * sim_zk.h
 *	  An ensemble of ZooKeeper servers in memory, as the clients of a few locks see it.
 *
 * Properties that ZooKeeper has, too:
 *	- a session's requests are carried out, and answered, in the order sent;
 *	- writes take effect in one order, at the leader; a follower goes through
 *	  the same states, later.  A read shows the state of the session's server,
 *	  arbitrarily old, but never older than the session's own writes.  A sync
 *	  brings the server up to the leader first;
 *	- a server that is behind the last zxid of a client does not take it;
 *	- a watch fires once, and its event reaches the client before any reply
 *	  that shows the change; SetWatches delivers what happened meanwhile;
 *	- when a connection breaks, some first part of the requests on their way
 *	  still arrives, and a write that arrived may take effect until the session
 *	  has its next connection, but not after;
 *	- an expired session's nodes go in one step, and the client hears of it
 *	  when it next connects; until a lagging server knows, it goes on serving;
 *	- empty containers that were used are reaped.
 *
 * It does not promise this, although one might expect it: a watch event does
 * not advance the client's last zxid (servers before 3.9 send none), so the next
 * server may show a state from before the event.
 *
 * Every step that has a choice of when (arrival, effect, reply, a follower's
 * progress) is a call, for the scheduler to make.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_ZK_H
#define SIM_ZK_H

#include "protocol/recipe.h"
#include "sim_tree.h"

#define SIM_SERVERS 3			/* number 0 leads */
#define SIM_MAX_CHILDREN 64
#define SIM_MAX_QUEUE 128

typedef enum SimOp
{
	SIM_MAKE,					/* the container dir; of no parent, NO_NODE */
	SIM_CREATE,					/* ephemeral, name || number of ten digits */
	SIM_CREATE_PLAIN,			/* ephemeral, exactly name */
	SIM_SET,
	SIM_DELETE,
	SIM_SYNC,
	SIM_LIST,					/* reads from here on */
	SIM_LIST_WATCH,
	SIM_GET,
	SIM_GET_WATCH,
	SIM_SET_WATCHES
} SimOp;

typedef struct SimRequest
{
	SimOp		op;
	bool		refused;		/* the server refuses it */
	SimDir		dir;
	char		name[SIM_NAME_SIZE];	/* "": dir itself */
	char		prefix[SIM_PREFIX_SIZE];	/* create: in the node's data */
	int			value;			/* MAKE, SET: the number to store */
	int64_t		since;			/* SET_WATCHES: the client's last zxid */

	/* the ensemble's own, for writes: */
	int64_t		zxid;			/* to be reached before the reply; 0: pending */
	ZkLockReply reply;
	int			node;
} SimRequest;

typedef struct SimReply
{
	bool		event;			/* a watch fired on `node`, else a reply */
	bool		of_children;	/* event: on what is in it */
	bool		deleted;		/* event: deleted, else changed */
	ZkLockReply reply;
	int64_t		zxid;
	int			node;			/* created, read or watched; -1: none */
	int			version;		/* read: how often it was set */
	int			value;			/* read: the number that it stores */
	int			nchildren;
	int			children[SIM_MAX_CHILDREN]; /* nodes */
} SimReply;

/* A watch is on a node or on what is in it. */
typedef struct SimWatch
{
	int			node;
	bool		of_children;
} SimWatch;

typedef enum SimLink
{
	SIM_LINK_NOTHING,			/* nothing to receive right now */
	SIM_LINK_REPLY,
	SIM_LINK_CLOSED,			/* closed by the server, all was read */
	SIM_LINK_UP,
	SIM_LINK_BEHIND,			/* the server is behind the client */
	SIM_LINK_EXPIRED			/* the session is over */
} SimLink;

extern void sim_zk_reset(void);

extern int	sim_zk_nsessions(void);
extern bool sim_zk_session_alive(int session);	/* at the leader */

/* Actions of clients */
extern int	sim_zk_open(int64_t *last_zxid);
extern SimLink sim_zk_connect(int session, int server, int64_t last_zxid,
							  const SimWatch *watched, int nwatched);
extern void sim_zk_send(int session, const SimRequest *request);
extern SimLink sim_zk_receive(int session, SimReply *reply);
extern void sim_zk_cut(int session);
extern void sim_zk_desert(int session); /* cut for good */

/* Events that happen by themselves; false: there was nothing to do. */
extern bool sim_zk_arrive(int session);
extern bool sim_zk_apply(int session);
extern bool sim_zk_catch_up(int server);
extern bool sim_zk_reap(void);
extern bool sim_zk_expire_deserted(void);
extern bool sim_zk_expire(int session);

/* Actions of other clients */
extern void sim_zk_touch(int node);
extern void sim_zk_rob(int node);
extern void sim_zk_count(int value);	/* negative: delete the count */

#endif							/* SIM_ZK_H */
