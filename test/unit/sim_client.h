/*-------------------------------------------------------------------------
 *
 * sim_client.h
 *	  A client of the simulated ensemble: ZooKeeper's library and zklock's client.
 *
 * Three threads run, and each of their steps is one for the scheduler: the
 * library's network thread (connect, receive, lose), its completion thread
 * (complete), which learns of all events later, and the caller's.
 *
 * As in the real library and client,
 *	- requests fail as soon as the completion thread knows that the connection
 *	  is lost; before that the library accepts them and, if the network thread
 *	  has reported the loss already, they wait for the next connection, or for
 *	  the next failed attempt at one, which loses them, too;
 *	- messages come in the order of the replies, together with the state after
 *	  the last of them;
 *	- watches survive connections, except those whose reply was lost;
 *	- a requested node is known here until it is certainly gone, and is deleted
 *	  without further calls after it was given up.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_CLIENT_H
#define SIM_CLIENT_H

#include "sim_zk.h"

#define SIM_MAX_CLIENT_NODES 64
#define SIM_MAX_MAIL 256

typedef enum SimPurpose
{
	SIM_FOR_NOBODY,				/* the reply is of no interest */
	SIM_FOR_ATTEMPT,
	SIM_FOR_DELETE
} SimPurpose;

/* The purpose of a request, and of its message. */
typedef struct SimTag
{
	SimPurpose	purpose;
	int			attempt;		/* FOR_ATTEMPT */
	uint32_t	id;				/* and the recipe's number for it */
	int			own;			/* the node that is created or left, or -1 */
} SimTag;

typedef struct SimMessage
{
	ZkLockEventKind kind;
	SimTag		tag;
	SimReply	reply;
} SimMessage;

typedef struct SimStatus
{
	bool		connected;
	bool		expired;
	int			connects;
	int64_t		confirmed;		/* when the last write that was answered was
								 * sent */
} SimStatus;

/* A node of ours, from before it exists until it is known to be deleted. */
typedef struct SimClientNode
{
	bool		used;
	bool		plain;			/* not sequential, the name is known */
	SimDir		dir;
	char		prefix[SIM_PREFIX_SIZE];
	char		stem[SIM_NAME_SIZE];	/* of the name, or all of it */
	char		name[SIM_NAME_SIZE];	/* "" while not known */
	bool		may_exist;
	int			creating;		/* creates that were not answered */
	bool		in_doubt;		/* the node of that name may belong to another
								 * session */
	bool		deleting;
	bool		busy;			/* a request of the deletion is under way */
	bool		hunted;			/* found by prefix: there may be more */
} SimClientNode;

/* Internal to sim_client.c. */
typedef struct SimSent
{
	SimTag		tag;
	int64_t		at;
	SimRequest	request;
} SimSent;

typedef struct SimWatching
{
	SimWatch	watch;
	int			attempt;
} SimWatching;

typedef enum SimNews
{
	SIM_NEWS_CONNECTED,
	SIM_NEWS_CONNECTING,
	SIM_NEWS_EXPIRED,
	SIM_NEWS_REPLY,
	SIM_NEWS_EVENT
} SimNews;

typedef struct SimCompletion
{
	SimNews		news;
	SimOp		op;				/* REPLY */
	int64_t		asked_at;		/* REPLY */
	SimMessage	message;		/* REPLY, EVENT */
} SimCompletion;

typedef struct SimClient
{
	int			number;
	int			session;		/* -1: closed */

	/* network thread */
	bool		up;
	bool		over;			/* the session, as the client knows it */
	int64_t		last_zxid;
	SimSent		sent[SIM_MAX_QUEUE];	/* ring: no reply yet, or not sent */
	int			first_sent;
	int			nsent;
	SimWatching watches[SIM_MAX_QUEUE];
	int			nwatches;

	/* completion thread */
	SimCompletion completions[SIM_MAX_MAIL];	/* ring */
	int			first_completion;
	int			ncompletions;

	/* for the caller */
	SimStatus	status;
	SimMessage	mailbox[SIM_MAX_MAIL];	/* ring */
	int			first_mail;
	int			nmail;
	SimClientNode own[SIM_MAX_CLIENT_NODES];
} SimClient;

/*
 * Called by the caller. Requests are answered by a message, if their tag wants
 * one.
 */
extern void sim_client_open(SimClient *c);
extern void sim_client_close(SimClient *c);
extern void sim_client_request(SimClient *c, const SimTag *tag, SimOp op,
							   SimDir dir, const char *name);
extern void sim_client_write(SimClient *c, const SimTag *tag, SimOp op,
							 SimDir dir, const char *name, int value);

/* A request that would set a watch is not made: there are too many. */
extern void sim_client_omit_watch(SimClient *c, const SimTag *tag, SimOp op);
extern SimMessage *sim_client_receive(SimClient *c);

/* `stem` is the part before the number, or the whole name. */
extern int	sim_client_node(SimClient *c, SimDir dir, const char *stem,
							const char *prefix, bool plain);
extern void sim_client_create(SimClient *c, const SimTag *tag);
extern void sim_client_adopt(SimClient *c, int own, const char *name);
extern void sim_client_delete(SimClient *c, int own);

/* Steps of the threads; false: there was nothing to do. */
extern bool sim_client_connect(SimClient *c, int server);
extern bool sim_client_listen(SimClient *c);
extern bool sim_client_lose(SimClient *c);
extern bool sim_client_complete(SimClient *c);

/*
 * Contenders that an attempt watches. The two nodes of a downgrade count as
 * one: the list that shows both may arrive while the other is still watched.
 */
extern int	sim_client_nwatched(const SimClient *c, int attempt);

extern void sim_copy_name(char *to, const char *from);

#endif							/* SIM_CLIENT_H */
