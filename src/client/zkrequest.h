/*-------------------------------------------------------------------------
 *
 * zkrequest.h
 *	  Requests and their replies, from behind the wall: for those that make some.
 *
 * Promises that a request is answered once, whatever the library does with it,
 * and that the time at which the session was alive for certain is noted.  What
 * requests there are is in zkclient.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ZKREQUEST_H
#define ZKLOCK_ZKREQUEST_H

#include "client/zkwatch.h"

typedef struct ZkLockZkRequest
{
	ZkLockLink	link;			/* in client->requests */
	ZkLockClient *client;
	ZkLockMessage *message;		/* the answer, made beforehand */
	ZkLockNode *node;			/* create, and confirm at anybody's path */
	Watch	   *watch;			/* that it may leave, or NULL */
	int			set_rc;			/* confirm: how the write ended */
	int64_t		sent;			/* when it was asked for */
	bool		in_parts;		/* calls before the last one have it, too */
	int			depth;			/* how many of those were answered */
	int			ancestor_rc;	/* why a parent above the last is not there */
} ZkLockZkRequest;

/* What ZooKeeper's code comes down to. */
extern ZkLockRc zklock_zkrequest_class(int rc);

/* Did a server carry the request out, or refuse to, in a living session? */
extern bool zklock_zkrequest_is_answer(int rc);

/* The session is refused if `rc` says that it serves nobody without credentials. */
extern void zklock_zkrequest_note_refusal(ZkLockClient *client, int rc);

/*
 * Note that a write which was sent at `sent` was answered, if `rc` says so: a
 * quorum has agreed that the session was alive after that.  Reads, pings, events
 * and syncs prove nothing: see zklock_zkclient_confirm().
 */
extern void zklock_zkrequest_confirm(ZkLockClient *client, int rc,
									 int64_t sent);

/* A request whose answer has this kind and tag; NULL: see zkclient.h. */
extern ZkLockZkRequest *zklock_zkrequest_new(ZkLockClient *client,
									 ZkLockMessageKind kind, ZkLockTag tag);

/* Post the answer: request->message but for how it ended. */
extern void zklock_zkrequest_answer(ZkLockZkRequest *request, int rc);

/* The same for a create, whose name and czxid go with it. */
extern void zklock_zkrequest_answer_created(ZkLockZkRequest *request, int rc,
											const char *path,
											const struct Stat *stat);

/*
 * The library did not take a request: post that.  Having run out of memory
 * halfway it might still call back with it, so the request itself stays until
 * the close, without a message.
 */
extern void zklock_zkrequest_not_taken(ZkLockZkRequest *request, int rc);

/* Behind zookeeper_close(): what was not answered, watches included. */
extern void zklock_zkrequest_free_all(ZkLockClient *client);

#endif							/* ZKLOCK_ZKREQUEST_H */
