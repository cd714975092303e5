/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  ereport() and what catches it.  See backend.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <stdarg.h>

#include "miscadmin.h"
#include "shim/backend.h"
#include "shim/shim.h"
#include "storage/ipc.h"

/* Signatures are those of PostgreSQL. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define MAX_ERRORS 5
#define MAX_TEXT 600

sigjmp_buf *PG_exception_stack = NULL;
ErrorContextCallback *error_context_stack = NULL;

typedef struct Error
{
	ErrorData	data;
	char		message[MAX_TEXT];
	char		detail[MAX_TEXT];
	char		hint[MAX_TEXT];
} Error;

static Error errors[MAX_ERRORS];
static int	nerrors = 0;

static Error *
last_error(void)
{
	return &errors[nerrors - 1];
}

/* What is told to nobody need not be made up. */
bool
errstart(int elevel, const char *domain)
{
	Error	   *error;

	if (elevel < ERROR && !shim_is_traced())
		return false;
	if (elevel >= ERROR && shim_is_locked())
		shim_fail("an error is raised under a lock");
	if (elevel >= ERROR && shim_xact_phase() != SHIM_XACT_NONE)
		shim_fail("an error is raised at the end of a transaction");
	if (nerrors == MAX_ERRORS)
		shim_fail("errors while errors are taken care of");
	error = &errors[nerrors++];
	memset(&error->data, 0, sizeof(error->data));
	error->data.elevel = elevel;
	error->data.sqlerrcode = elevel >= ERROR ? ERRCODE_INTERNAL_ERROR : 0;
	error->message[0] = error->detail[0] = error->hint[0] = '\0';
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	Error	   *error = last_error();
	int			elevel = error->data.elevel;

	for (ErrorContextCallback *context = error_context_stack; context != NULL;
		 context = context->previous)
		context->callback(context->arg);
	shim_trace("%s: %s (%s, %s:%d)", elevel >= FATAL ? "FATAL" :
			   elevel >= ERROR ? "ERROR" : elevel == WARNING ? "WARNING" : "LOG",
			   error->message, error->detail, funcname, lineno);
	if (elevel < ERROR)
	{
		nerrors--;
		return;
	}
	if (elevel >= FATAL || PG_exception_stack == NULL)
		proc_exit(1);
	InterruptHoldoffCount = 0;
	pg_re_throw();
}

void
pg_re_throw(void)
{
	if (PG_exception_stack == NULL)
		proc_exit(1);
	siglongjmp(*PG_exception_stack, 1);
}

#define SET_TEXT(which) \
	do { \
		va_list		args; \
\
		va_start(args, fmt); \
		vsnprintf(last_error()->which, MAX_TEXT, fmt, args); \
		va_end(args); \
		last_error()->data.which = last_error()->which; \
	} while (0)

int
errmsg(const char *fmt,...)
{
	SET_TEXT(message);
	return 0;
}

int
errmsg_internal(const char *fmt,...)
{
	SET_TEXT(message);
	return 0;
}

int
errdetail(const char *fmt,...)
{
	SET_TEXT(detail);
	return 0;
}

int
errdetail_internal(const char *fmt,...)
{
	SET_TEXT(detail);
	return 0;
}

int
errdetail_log(const char *fmt,...)
{
	SET_TEXT(detail);
	return 0;
}

int
errhint(const char *fmt,...)
{
	SET_TEXT(hint);
	return 0;
}

int
errcode(int sqlerrcode)
{
	last_error()->data.sqlerrcode = sqlerrcode;
	return 0;
}

int
errcode_for_file_access(void)
{
	return errcode(ERRCODE_IO_ERROR);
}

int
errhidestmt(bool hide)
{
	return 0;
}

int
errhidecontext(bool hide)
{
	return 0;
}

int
geterrcode(void)
{
	return last_error()->data.sqlerrcode;
}

bool
shim_is_error_handled(void)
{
	return nerrors > 0;
}

bool
shim_was_user_cancel(void)
{
	return strcmp(last_error()->message,
				  "canceling statement due to user request") == 0;
}

bool
shim_was_session_lost(void)
{
	return strncmp(last_error()->detail, "The ZooKeeper session that held it has ended", 44) == 0;
}

bool
shim_was_unconfirmed(void)
{
	return strncmp(last_error()->detail, "ZooKeeper has not confirmed its session", 39) == 0;
}

void
EmitErrorReport(void)
{
}

void
FlushErrorState(void)
{
	nerrors = 0;
}

ErrorData *
CopyErrorData(void)
{
	const Error *error = last_error();
	ErrorData  *copy = palloc(sizeof(ErrorData));

	*copy = error->data;
	copy->message = pstrdup(error->message);
	copy->detail = error->data.detail != NULL ? pstrdup(error->detail) : NULL;
	copy->hint = error->data.hint != NULL ? pstrdup(error->hint) : NULL;
	return copy;
}

void
FreeErrorData(ErrorData *error)
{
	pfree(error->message);
	if (error->detail != NULL)
		pfree(error->detail);
	if (error->hint != NULL)
		pfree(error->hint);
	pfree(error);
}

void
ReThrowError(ErrorData *error)
{
	ereport(ERROR,
			(errcode(error->sqlerrcode),
			 errmsg_internal("%s", error->message)));
}
