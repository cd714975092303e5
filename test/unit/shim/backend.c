/*-------------------------------------------------------------------------
 *
 * backend.c
 *	  Waits, interrupts, settings and exits of one process.  See backend.h.
 *
 * Besides, what is of no interest here: names, titles, encodings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>
#include <unistd.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "backend/deadlock_pgwaits.h"
#include "client/zklog.h"
#include "client/zkprobe.h"
#include "common/authfile.h"
#include "common/clientsocket.h"
#include "common/compat.h"
#include "common/guc.h"
#include "common/text.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "server_sim.h"
#include "session/nodedata.h"
#include "shim/backend.h"
#include "shim/process.h"
#include "shim/shim.h"
#include "storage/fd.h"
#include "tcop/pquery.h"
#include "utils/inval.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "worker/sessionfile.h"

/* Signatures are those of PostgreSQL. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define MAX_EXITS 20
#define MAX_PROCESSES 32

volatile uint32 InterruptHoldoffCount = 0;
volatile uint32 QueryCancelHoldoffCount = 0;
volatile uint32 CritSectionCount = 0;
volatile sig_atomic_t ProcDiePending = false;
volatile sig_atomic_t ConfigReloadPending = false;
volatile sig_atomic_t ShutdownRequestPending = false;
bool		IsUnderPostmaster = true;
bool		am_walsender = false;
int			ParallelWorkerNumber = -1;
int			DeadlockTimeout = 1000;
TimestampTz PgStartTime = 0;
int			LockTimeout = 0;
bool		log_lock_waits = false;
bool		update_process_title = false;
char	   *SyncRepStandbyNames = NULL;
int			synchronous_commit = SYNCHRONOUS_COMMIT_ON;
Portal		ActivePortal = (Portal) &ActivePortal;	/* there is one */
int			MyXactFlags = 0;

char	   *zklock_guc_hosts;
char	   *zklock_guc_auth = "";
char	   *zklock_guc_auth_file = "";
char	   *zklock_guc_acl = "";
int			zklock_guc_max_locks_per_backend;
int			zklock_guc_max_kept_locks;
int			zklock_guc_session_timeout;
int			zklock_guc_max_session_size;
int			zklock_guc_connect_timeout;
int			zklock_guc_try_timeout = 1000;
int			zklock_guc_idle_session_timeout;
int			zklock_guc_default_scope = 0;
bool		zklock_guc_revocable;
bool		zklock_guc_deadlock_detection = true;
int			zklock_guc_confirm_commit;
int			zklock_guc_on_loss = ZKLOCK_ON_LOSS_CANCEL;
int			zklock_guc_log_level = LOG;
int			zklock_guc_session_mode = ZKLOCK_SESSION_SERVER;

static volatile sig_atomic_t lock_timeout_pending = false;
static bool timeout_active = false;
static bool user_cancelled = false; /* since the last shim_forget_cancel() */
static struct
{
	pg_on_exit_callback call;
	Datum		arg;
}			at_exit[MAX_EXITS];
static int	n_at_exit = 0;
static struct
{
	pg_on_exit_callback call;
	Datum		arg;
}			before_exit;

bool
zklock_guc_is_servers(void)
{
	return true;
}

/* A process's own setting */
static bool is_idle_timeout_set = false;

static void
read_settings(void)
{
	const ShimSettings *settings = shim_settings();

	zklock_guc_hosts = unconstify(char *, settings->hosts);
	zklock_guc_leaders = unconstify(char *, settings->leaders);
	zklock_guc_handover_time = settings->handover_time;
	zklock_guc_keep_time = settings->keep_time;
	zklock_guc_max_kept_locks = settings->max_kept_locks;
	zklock_guc_max_locks = settings->max_locks;
	zklock_guc_max_locks_per_backend = settings->max_locks_per_backend;
	zklock_guc_session_timeout = settings->session_timeout;
	zklock_guc_max_session_size = settings->max_session_size;
	zklock_guc_connect_timeout = settings->connect_timeout;
	if (!is_idle_timeout_set)
		zklock_guc_idle_session_timeout = settings->idle_session_timeout;
	zklock_guc_confirm_commit = settings->confirm_commit;
	zklock_guc_revocable = settings->revocable;
}

void
ProcessConfigFile(GucContext context)
{
	read_settings();
}

/* The worker's session is not closed for want of use. */
void
SetConfigOption(const char *name, const char *value, GucContext context,
				GucSource source)
{
	if (strcmp(name, "zklock.idle_session_timeout") != 0)
		return;
	zklock_guc_idle_session_timeout = atoi(value);
	is_idle_timeout_set = true;
}

/*
 * The process has a client, which leaves when it is told nothing any more.
 */

static volatile sig_atomic_t is_client_shut = false;

static volatile sig_atomic_t relied = 0;

void
zklock_clientsocket_rely(int change)
{
	relied += change;
}

bool
zklock_clientsocket_is_relied_on(void)
{
	return zklock_guc_on_loss == ZKLOCK_ON_LOSS_DISCONNECT ||
		(zklock_guc_on_loss == ZKLOCK_ON_LOSS_AUTO && relied > 0);
}

void
zklock_clientsocket_shut(void)
{
	if (!zklock_clientsocket_is_relied_on())
		return;
	if (!is_client_shut)
		server_disconnects();
	is_client_shut = true;
}

bool
zklock_clientsocket_is_shut(void)
{
	return is_client_shut;
}

/*
 * Signals, as in postgres.c
 */

static void
on_cancel(int signal)
{
	shim_trace("signal %d", signal);
	if (!proc_exit_inprogress)
		InterruptPending = QueryCancelPending = true;
	user_cancelled |= signal == SIGINT;
	SetLatch(MyLatch);
}

bool
shim_forget_cancel(void)
{
	bool		cancelled = user_cancelled;

	QueryCancelPending = user_cancelled = false;
	return cancelled;
}

static void
on_terminate(int signal)
{
	if (!proc_exit_inprogress)
		InterruptPending = ProcDiePending = true;
	SetLatch(MyLatch);
}

static void
on_lock_timeout(int signal)
{
	/* It may have been disabled meanwhile. */
	if (!timeout_active)
		return;
	timeout_active = false;
	lock_timeout_pending = true;
	on_cancel(signal);
}

static void
on_reload(int signal)
{
	ConfigReloadPending = true;
	SetLatch(MyLatch);
}

void
SignalHandlerForConfigReload(SIGNAL_ARGS)
{
	on_reload(postgres_signal_arg);
}

void
ProcessInterrupts(void)
{
	if (InterruptHoldoffCount != 0 || CritSectionCount != 0)
		return;
	InterruptPending = false;
	if (ProcDiePending)
	{
		ProcDiePending = false;
		QueryCancelPending = false;
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating connection due to administrator command")));
	}
	if (QueryCancelPending)
	{
		bool		timed_out = lock_timeout_pending;

		QueryCancelPending = lock_timeout_pending = false;
		ereport(ERROR,
				(errcode(timed_out ? ERRCODE_LOCK_NOT_AVAILABLE : ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement due to %s",
						timed_out ? "lock timeout" : "user request")));
	}
}

void
enable_timeout_after(TimeoutId id, int ms)
{
	lock_timeout_pending = false;
	timeout_active = true;
	shim_set_timer(SIGALRM, shim_now() + ms * INT64CONST(1000000));
}

bool
get_timeout_active(TimeoutId id)
{
	return timeout_active;
}

void
disable_timeout(TimeoutId id, bool keep_indicator)
{
	shim_set_timer(SIGALRM, 0);
	timeout_active = false;
}

/*
 * There are no locks of PostgreSQL.
 */

uint32
zklock_deadlock_pgwaits_nprocesses(void)
{
	return (uint32) MaxBackends;
}

bool
zklock_deadlock_pgwaits_any(void)
{
	return false;
}

int
zklock_deadlock_pgwaits_read(uint32 process, ZkLockPgWait **waits)
{
	return 0;
}

int
zklock_deadlock_pgwaits_behind(uint32 process, bool *behind, ZkLockPgStep *steps)
{
	return 0;
}

bool
zklock_deadlock_pgwaits_is_unchanged(const ZkLockPgStep *chain, int n)
{
	return true;
}

bool
zklock_deadlock_pgwaits_is_same(const ZkLockPgWait *a, const ZkLockPgWait *b)
{
	return false;
}

/*
 * Waits
 */

static bool set_listens = false;

int
WaitLatch(Latch *latch, int events, long timeout, uint32 wait_event)
{
	return shim_wait((events & WL_TIMEOUT) ? timeout : -1, false) ?
		WL_LATCH_SET : WL_TIMEOUT;
}

void
ResetLatch(Latch *latch)
{
	shim_reset_latch();
}

#if PG_VERSION_NUM >= 170000
WaitEventSet *
CreateWaitEventSet(ResourceOwner owner, int n)
#else
WaitEventSet *
CreateWaitEventSet(MemoryContext context, int n)
#endif
{
	return (WaitEventSet *) &set_listens;
}

int
AddWaitEventToSet(WaitEventSet *set, uint32 events, pgsocket fd, Latch *latch,
				  void *data)
{
	set_listens |= (events & WL_SOCKET_READABLE) != 0;
	return 0;
}

int
WaitEventSetWait(WaitEventSet *set, long timeout, WaitEvent *event, int n,
				 uint32 wait_event)
{
	if (shim_is_wait_failing())
		ereport(ERROR, (errmsg("could not wait")));
	if (!shim_wait(timeout, set_listens))
		return 0;
	event->events = shim_is_latch_set() ? WL_LATCH_SET : WL_SOCKET_READABLE;
	return 1;
}

/* These two have names of libc's: only the library's own calls come here. */
int
eventfd(unsigned count, int flags)
{
	return 100;
}

ssize_t
read(int fd, void *data, size_t size)
{
	if (shim_take_ring())
		return (ssize_t) size;
	errno = EAGAIN;
	return -1;
}

bool
AcquireExternalFD(void)
{
	return true;
}

void
ReleaseExternalFD(void)
{
}

/*
 * The beginning and the end
 */

void
on_proc_exit(pg_on_exit_callback function, Datum arg)
{
	if (n_at_exit == MAX_EXITS)
		shim_fail("no room for another callback at exit");
	at_exit[n_at_exit].call = function;
	at_exit[n_at_exit++].arg = arg;
}

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
	if (before_exit.call != NULL)
		shim_fail("no room for another callback before the exit");
	before_exit.call = function;
	before_exit.arg = arg;
}

/* The transaction is aborted first, then shared memory is left. */
void
proc_exit(int code)
{
	static bool exiting = false;

	if (exiting)
		shim_fail("an error while the process exits");
	exiting = true;
	proc_exit_inprogress = true;
	InterruptPending = ProcDiePending = QueryCancelPending = false;
	InterruptHoldoffCount = 1;
	CritSectionCount = 0;
	PG_exception_stack = NULL;
	error_context_stack = NULL;
	if (shim_xact_is_begun())
		shim_xact_abort();
	if (before_exit.call != NULL)
		before_exit.call(code, before_exit.arg);
	shim_process_end();
	while (n_at_exit > 0)
	{
		n_at_exit--;
		at_exit[n_at_exit].call(code, at_exit[n_at_exit].arg);
	}
	shim_exit(code);
}

void
shim_process_clear(void)
{
#ifdef SERVER_COVERAGE
	extern void __gcov_dump(void);

	/* The counters are variables of the process, and go with it. */
	__gcov_dump();
#endif
	shim_memory_clear();
}

void
shim_backend_begin(int procno, int pid, bool is_worker)
{
	read_settings();
	shim_process_begin(procno, pid, MAX_PROCESSES);
	shim_on_signal(SIGINT, on_cancel);
	shim_on_signal(SERVER_LOSS_SIGNAL, on_cancel);
	shim_on_signal(SIGTERM, on_terminate);
	shim_on_signal(SIGALRM, on_lock_timeout);
	shim_on_signal(SIGHUP, on_reload);
	if (!is_worker)
		shim_unblock_signals();
}

void
BackgroundWorkerUnblockSignals(void)
{
	shim_unblock_signals();
}

void
BackgroundWorkerInitializeConnection(const char *database, const char *user,
									 uint32 flags)
{
}

void
RegisterBackgroundWorker(BackgroundWorker *worker)
{
}

/*
 * sessionfile.h: the file is as good as the disk it is on.
 */

typedef struct SessionFile
{
	bool		there;
	ZkLockIdentity identity;
	int			timeout;
} SessionFile;

void
zklock_sessionfile_write(const ZkLockIdentity *identity, int timeout)
{
	SessionFile *file = shim_file();

	file->identity = *identity;
	file->timeout = timeout;
	file->there = true;
}

bool
zklock_sessionfile_read(ZkLockIdentity *identity, int *timeout)
{
	const SessionFile *file = shim_file();

	*identity = file->identity;
	*timeout = file->timeout;
	return file->there;
}

void
zklock_sessionfile_remove(void)
{
	SessionFile *file = shim_file();

	file->there = false;
}

/* That of the file is its server's. */
uint64
GetSystemIdentifier(void)
{
	return shim_settings()->server;
}

/*
 * Nothing that matters here
 */

const char *
zklock_nodedata_self(bool revocable)
{
	return psprintf("host=h port=5432 pid=%d", MyProcPid);
}

char *
zklock_nodedata_leader(void)
{
	return "host=h port=5432 leader=t";
}

const char *
zklock_guc_path_prefix(void)
{
	return "";
}

bool
RecoveryInProgress(void)
{
	return shim_settings()->recovers;
}

char *
zklock_nodedata_describe(const char *path, const char *node, const char *data)
{
	return pstrdup(data);
}

char *
zklock_nodedata_describe_holder(const char *path, const char *node, const char *data)
{
	return pstrdup(data);
}

char *
zklock_text_from_utf8(const char *text)
{
	return pstrdup(text);
}

char *
zklock_authfile_read(const char *path)
{
	return pstrdup("");
}

bool
zklock_zklog_take(char *line, bool *connecting, unsigned *suppressed)
{
	return false;
}

ZkLockProbe *
zklock_zkprobe_start(const char *hosts)
{
	return NULL;
}

void
zklock_zkprobe_report(ZkLockProbe *probe, int wait_ms, char *text, size_t size)
{
	text[0] = '\0';
}

void
zklock_zkprobe_drop(ZkLockProbe *probe)
{
}

char *
pg_any_to_server(const char *text, int len, int encoding)
{
	return unconstify(char *, text);
}

int
pg_encoding_mbcliplen(int encoding, const char *text, int len, int limit)
{
	return Min(len, limit);
}

bool
pg_strong_random(void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((uint8 *) data)[i] = (uint8) shim_noise(256);
	return true;
}

void
AtEOXact_Files(bool is_commit)
{
}

void
AcceptInvalidationMessages(void)
{
}

void
InvalidateCatalogSnapshotConditionally(void)
{
}

#if PG_VERSION_NUM >= 160000
void
set_ps_display_suffix(const char *suffix)
{
}

void
set_ps_display_remove_suffix(void)
{
}
#else
const char *
get_ps_display(int *len)
{
	*len = 0;
	return "";
}

void
set_ps_display(const char *title)
{
}
#endif

/*
 * Those of libc will do.
 */
#undef vsnprintf
#undef qsort

int
pg_vsnprintf(char *text, size_t size, const char *fmt, va_list args)
{
	return vsnprintf(text, size, fmt, args);
}

int
pg_snprintf(char *text, size_t size, const char *fmt,...)
{
	va_list		args;
	int			n;

	va_start(args, fmt);
	n = vsnprintf(text, size, fmt, args);
	va_end(args);
	return n;
}

void
pg_qsort(void *base, size_t n, size_t size,
		 int (*compare) (const void *a, const void *b))
{
	qsort(base, n, size, compare);
}
