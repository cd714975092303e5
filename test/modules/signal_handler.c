/*
 * A library for which SIGUSR2 ends the backend, as a parallel apply worker ends with it.
 */
#include "postgres.h"

#include <signal.h>

#include "fmgr.h"
#include "tcop/tcopprot.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	pqsignal(SIGUSR2, die);
}
