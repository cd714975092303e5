/*-------------------------------------------------------------------------
 *
 * clientsocket.c
 *	  Closes the connection of this backend's client.  See clientsocket.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

/*
 * With these, libpq-be.h includes headers of other libraries, which need not be
 * installed.  They have no influence on the first member of a Port.
 */
#undef ENABLE_GSS
#undef USE_OPENSSL

#include <signal.h>
#include <sys/socket.h>

#include "common/clientsocket.h"
#include "common/guc.h"
#include "libpq/libpq-be.h"
#include "miscadmin.h"

StaticAssertDecl(offsetof(Port, sock) == 0, "the socket must be the first member");

static volatile sig_atomic_t is_shut = false;
static volatile sig_atomic_t relied = 0;

void
zklock_clientsocket_rely(int change)
{
	relied += change;
	Assert(relied >= 0);
}

bool
zklock_clientsocket_is_relied_on(void)
{
	return MyProcPort != NULL &&
		(zklock_guc_on_loss == ZKLOCK_ON_LOSS_DISCONNECT ||
		 (zklock_guc_on_loss == ZKLOCK_ON_LOSS_AUTO && relied > 0));
}

/*
 * PostgreSQL does not expect a termination everywhere: a commit that waits for a
 * synchronous standby would stop waiting.  An end of its input it expects wherever it
 * reads, and it never reads during a commit.  What it writes still arrives.
 *
 * PostgreSQL closes the socket only at the end of the process, so its number cannot be
 * that of another file.
 */
void
zklock_clientsocket_shut(void)
{
	if (zklock_clientsocket_is_relied_on() && shutdown(MyProcPort->sock, SHUT_RD) == 0)
		is_shut = true;
}

bool
zklock_clientsocket_is_shut(void)
{
	return is_shut;
}
