/*-------------------------------------------------------------------------
 *
 * server_tend.c
 *	  How the client of the model keeps its session confirmed.  See server_tend.h.
 *
 *-------------------------------------------------------------------------
 */
#include "server_tend.h"

#include <string.h>

static void
begin(ServerTending *tending)
{
	memset(tending, 0, sizeof(*tending));
}

/* After a reconnection, what was written before can be proven at once. */
static void
connected(ServerTending *tending, int64_t timeout, int64_t begun, int64_t now)
{
	bool		is_first = tending->proof.connection == 0;

	tending->timeout = timeout;
	tending->beat_at = is_first ? now + zklock_proof_beat(timeout) : now;
	zklock_proof_connected(&tending->proof, begun);
}

static bool
answered(ServerTending *tending, ServerAnswered what, int64_t sent, int64_t now)
{
	if (what != SERVER_WRITE)
		return false;
	return zklock_proof_answered(&tending->proof, tending->timeout, sent, now);
}

static int64_t
beat_at(const ServerTending *tending, bool used)
{
	(void) used;
	return tending->beat_at;
}

static void
beat(ServerTending *tending, int64_t now)
{
	tending->beat_at = now + zklock_proof_beat(tending->timeout);
}

static int64_t
rest(const ServerTending *tending)
{
	return zklock_proof_rest(tending->timeout);
}

const ServerTend server_tend = {
	.begin = begin,
	.connected = connected,
	.answered = answered,
	.beat_at = beat_at,
	.beat = beat,
	.rest = rest
};
