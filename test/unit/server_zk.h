/*-------------------------------------------------------------------------
 *
 * server_zk.h
 *	  ZooKeeper, and the client of it behind zkclient.h, for whole servers.
 *
 * A model of both in one, which keeps of them what their users rely on:
 *	- a session's requests are carried out, and answered, in the order sent; between
 *	  each request and its effect, and that and its reply, anything may happen;
 *	- when a connection breaks, some first part of what is under way takes effect, and
 *	  all of it is lost;
 *	- a watch fires once, before a reply that shows the change, over any number of
 *	  connections;
 *	- a session of which the ensemble's leader was not told for its timeout is over, and its
 *	  nodes go in one step; a client that stands still is not heard (server_ensemble.h);
 *	- a node that may exist is deleted until it is gone.
 *
 * Reads are never stale here, and a node is found and deleted in one step: stale reads
 * are the recipe's simulation's affair (sim_zk.h), and the real zknode.c and zkrequest.c
 * are tested by the stress program and with real servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_ZK_H
#define SERVER_ZK_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/numbers.h"

extern void server_zk_reset(void);

/* One thing that happens by itself; when there is one if nobody does anything. */
extern bool server_zk_step(void);
extern int64_t server_zk_next(void);

/*
 * The same as acts of actors, by their numbers: for each client, the ensemble carries out a
 * request, the client takes what has been sent to it, or notices how its connection is.
 */
extern int	server_zk_nactors(void);
extern bool server_zk_can_act(int actor);
extern void server_zk_act(int actor);

/* Time passes: the ensemble hears of some sessions, and of others not. */
extern void server_zk_pass(int64_t now);

/* The process, whose client it is, has gone without a goodbye. */
extern void server_zk_forget(int process);

/*
 * Faults.  False: there is nothing to be done.  The last two are about one of the nodes
 * that can be concerned, by its number; -1: it is drawn.
 */
extern bool server_zk_cut(int process, int64_t until);
extern bool server_zk_partition(int process, int64_t until);
extern bool server_zk_rob(int which);
extern bool server_zk_revoke(int which);

/* Of the servers of the ensemble: see server_ensemble.h. */
extern bool server_zk_stop_member(int member, int64_t until);
extern bool server_zk_cut_off(int member, int64_t until);
extern bool server_zk_elect(int64_t begins, int64_t noticed);

/* When the session of a process ends if nobody hears it from now on; 0: it has none. */
extern int64_t server_zk_last_moment(int process);

/* Numbers of nodes that can be concerned by these */
extern int	server_zk_nrobbable(void);

/* Delete the nodes whose deletes were refused. */
extern void server_zk_delete_refused(void);
extern int	server_zk_nrevocable(void);

/*
 * The count of leases becomes a number, -1: what is none, or -2: there is none.  Returns
 * false if it is that already.
 */
extern bool server_zk_change_count(int count);

/*
 * Until then, no client of a process gets a connection: it is refused, or cannot be
 * begun.  Was that so since then, or was one refused that never had a connection?  That
 * is reported once.
 */
extern void server_zk_refuse(int process, int64_t until);
extern bool server_zk_take_refusal(int process, int64_t since);

/* Is it connected, and nothing in the way? */
extern bool server_zk_is_well(int process);

/*
 * Was there no room for a node, and is there a reason not to look at that again until then,
 * when something happens next?
 */
extern bool server_zk_is_short(int process, int64_t then);

/* The same if a list was not permitted */
extern bool server_zk_is_put_off(int process, int64_t then);

/* The owner of the node for which the caller's client has had no room last, even later */
extern uint32_t server_zk_refused_owner(void);

/*
 * For whom the caller's client counts its node of this name, and as one that is given up?
 * 0: it has none.
 */
extern uint32_t server_zk_counted_for(const char *dir, const char *name, bool *given_up);

/* How often was the caller's node of this name revoked?  UINT32_MAX: it has none. */
extern uint32_t server_zk_revocations(const char *name);

extern bool server_zk_is_alive(int64_t session);

/* When the process read the clock last */
extern int64_t server_zk_clock(int process);

/* Has a process a client?  Its session, or 0; the session that made a node */
extern bool server_zk_has_client(int process);
extern int64_t server_zk_session(int process);
extern int64_t server_zk_owner(int64_t czxid);

/* Is the session that made a node alive, and its client connected? */
extern bool server_zk_is_heard(int64_t czxid);

/* Is there a node with this token? */
extern bool server_zk_is_there(ZkLockToken token);

/* Has a session a node of this name? */
extern bool server_zk_has_node(int64_t session, const char *name);

/* Is it that of a worker? */
extern bool server_zk_is_shared(int64_t session);

/* When it was, or will be, lost as far as its client knows: then a signal is sent. */
extern int64_t server_zk_lost_at(int process);

/* When a process was told last that its session is gone; 0: it was not. */
extern int64_t server_zk_told_gone_at(int process);

/* Has a process ended without a word to its client? */
extern bool server_zk_is_left(int process);

/* Does a process's client know that its session is over? */
extern bool server_zk_is_over(int process);

/* Was it closed, rather than has expired? */
extern bool server_zk_is_closed(int64_t session);

/*
 * Has the node been deleted by others, or the one with this token, which it was made
 * beside?
 */
extern bool server_zk_is_robbed(int64_t session, const char *name, ZkLockToken token);

/*
 * When others have deleted the node with this token; 0: they have not.  Have they deleted the one
 * with this name, and has ZooKeeper told its client that?  A reader with the token of a stronger
 * lock has another name.
 */
extern int64_t server_zk_deleted_at(ZkLockToken token);
extern bool server_zk_is_deleted(ZkLockToken token, const char *name, bool *known);

/*
 * When has a worker found a node that is not there, if nothing disturbs it since then?  After
 * each sixth of the session's timeout without a message it looks for one of its nodes, in turn.
 */
extern int64_t server_zk_found_at(int process, int64_t since);

/*
 * Was the node with this token created next to one of the same server?  True if there is
 * no such node, or if numbers may have begun anew.
 */
extern bool server_zk_is_next(ZkLockToken token);

/* How many nodes of locks there are; watches that a process's client has. */
extern int	server_zk_nnodes(void);
extern int	server_zk_nwatches(int process);

/*
 * Is a process's client connected, and have it and ZooKeeper nothing to say to each other?
 * False if others have deleted any of its nodes.  Its nodes that are not given up, one after
 * the other.  Does one of them have to wait for others?
 */
extern bool server_zk_is_idle(int process);
extern const void *server_zk_node(int process, const void *after);
extern bool server_zk_is_blocked(const void *node);

/* Another client, which has no watches: a node at the end of a path's queue. */
extern int64_t server_zk_rival_enter(const char *path, bool reader, bool hides);
extern bool server_zk_rival_is_first(int64_t czxid);
extern void server_zk_rival_release(int64_t czxid);

#endif							/* SERVER_ZK_H */
