/*-------------------------------------------------------------------------
 *
 * server_tend.h
 *	  How the client of the model keeps its session confirmed, for the simulation of servers.
 *
 * It does what zkbeat.c and zkrequest.c do with the rule of proof.h: which answers are
 * marks, and when the client's own thread writes.  It is in the library, with proof.c, and
 * not in the program, so that mutants can break it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SERVER_TEND_H
#define SERVER_TEND_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/proof.h"

/* Of a session; times in ns */
typedef struct ServerTending
{
	ZkLockProof proof;
	int64_t		timeout;
	int64_t		beat_at;		/* when its client writes next */
} ServerTending;

/* What was answered */
typedef enum ServerAnswered
{
	SERVER_WRITE,
	SERVER_READ,
	SERVER_PING
} ServerAnswered;

typedef struct ServerTend
{
	/* Its session is to be begun. */
	void		(*begin) (ServerTending *tending);

	/* It is connected.  `begun`: when it was asked for, if it is new, or 0 */
	void		(*connected) (ServerTending *tending, int64_t timeout, int64_t begun,
							  int64_t now);

	/* Returns whether it is confirmed anew. */
	bool		(*answered) (ServerTending *tending, ServerAnswered what, int64_t sent,
							 int64_t now);

	/*
	 * When the client writes, if it is connected, or INT64_MAX; it has done
	 * so.  Has it nodes or requests?
	 */
	int64_t		(*beat_at) (const ServerTending *tending, bool used);
	void		(*beat) (ServerTending *tending, int64_t now);

	/* For how long it may be without a use */
	int64_t		(*rest) (const ServerTending *tending);
} ServerTend;

/* Of the library */
extern const ServerTend server_tend;

#endif							/* SERVER_TEND_H */
