/*-------------------------------------------------------------------------
 *
 * sim_tree.h
 *	  The znodes of the simulated ensemble, and the log of its transactions.
 *
 * There is one table of nodes with the zxids of their creation and deletion.
 * It is the leader's tree, and at the same time that of every follower: one
 * that has reached a zxid sees the nodes created up to it and not deleted up
 * to it. There is a fixed set of containers; their children are the
 * contenders, and the simple locks.
 *
 * Properties, because ZooKeeper has them: numbers come from a counter of the
 * parent that every create increments and no delete changes; it begins anew
 * with each incarnation of the parent, and at its end sticks or wraps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_TREE_H
#define SIM_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_NAME_SIZE 72

#define SIM_PREFIX_SIZE 41

/* The containers. */
typedef enum SimDir
{
	SIM_TOP,					/* below the root; simple locks are in here */
	SIM_QUEUE_A,				/* lock paths, below the top */
	SIM_QUEUE_B,
	SIM_QUEUE_C,
	SIM_SEMAPHORE,				/* a semaphore's path, below the top */
	SIM_LOCKS,					/* the two below that */
	SIM_LEASES,
	SIM_N_DIRS
} SimDir;

/* A znode, with its whole history; never reused within a schedule. */
typedef struct SimNode
{
	SimDir		dir;			/* that contains it, or that it is */
	bool		container;
	int			parent;			/* -1: the root */
	char		name[SIM_NAME_SIZE];	/* of a node that is no container */
	char		prefix[SIM_PREFIX_SIZE];	/* in its data */
	int64_t		seq;
	bool		reader;
	int			owner;			/* session; -1: a container, or the count */
	int64_t		czxid;
	int64_t		dzxid;			/* INT64_MAX while it exists */
	bool		node_deleted;	/* deleted by another client */

	/* as the leader knows it */
	int32_t		cversion;
	int			nchildren;
} SimNode;

typedef enum SimTxnKind
{
	SIM_TXN_OTHER,				/* nothing that a client watches */
	SIM_TXN_CREATE,
	SIM_TXN_DELETE,
	SIM_TXN_CHANGE,
	SIM_TXN_CLOSE				/* a session's end; its nodes go with it */
} SimTxnKind;

typedef struct SimTxn
{
	SimTxnKind	kind;
	int			subject;		/* a node; CLOSE: a session */
	int			value;			/* CREATE, CHANGE: the number that a container
								 * stores */
} SimTxn;

extern void sim_tree_reset(void);
extern int64_t sim_tree_zxid(void); /* of the last transaction */
extern const SimTxn *sim_tree_txn(int64_t zxid);

extern int	sim_tree_nnodes(void);
extern const SimNode *sim_tree_node(int node);
extern bool sim_tree_exists(int node);	/* at the leader */
extern bool sim_tree_exists_at(int node, int64_t zxid);

/* A random existing node that is no container; or -1. */
extern int	sim_tree_draw_contender(void);

extern SimDir sim_tree_parent_dir(SimDir dir);	/* SIM_TOP for itself */

/* The container if name is NULL, else its child; -1: none. */
extern int	sim_tree_find(SimDir dir, const char *name, int64_t zxid);

/* How often the node's data was set, its children created or deleted. */
extern int	sim_tree_changes(int node, int64_t since, int64_t zxid);

/* Returns the number that a node stores. */
extern int	sim_tree_value(int node, int64_t zxid);
extern bool sim_tree_children_changed(int node, int64_t since, int64_t zxid);

/* Transactions.  Each is one zxid, or none if there was nothing to do. */
extern int64_t sim_tree_log(SimTxnKind kind, int subject);
extern bool sim_tree_make(SimDir dir, int value);	/* false: no parent */
extern void sim_tree_set(int node, int value);

/*
 * The count of leases, a node below the top; it is created if there is none.
 */
#define SIM_COUNT "count"
extern void sim_tree_count(int value);
extern int	sim_tree_find_count(int64_t zxid);	/* or -1 */

/*
 * A sequential node can exist already only if its prefix is used twice and the
 * counter sticks.
 */
#define SIM_NO_PARENT (-1)
#define SIM_NODE_EXISTS (-2)
extern int	sim_tree_create(SimDir dir, const char *name, const char *prefix,
							bool sequential, int owner);

extern void sim_tree_delete(int node);
extern void sim_tree_rob(int node);
extern void sim_tree_close(int session);
extern bool sim_tree_reap(void);

#endif							/* SIM_TREE_H */
