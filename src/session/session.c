/*-------------------------------------------------------------------------
 *
 * session.c
 *	  The ZooKeeper session of this process.  See session.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/zklog.h"
#include "common/authfile.h"
#include "common/clientsocket.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "miscadmin.h"
#include "session/diagnosis.h"
#include "session/errors.h"
#include "session/session.h"
#include "shared/stats.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "utils/snapmgr.h"

/*
 * Time that an exiting backend waits until its session is closed.  If
 * ZooKeeper does not answer in that time, the session expires and its locks
 * are released later.
 */
#define CLOSE_TIMEOUT_MS 2000

/* PostgreSQL uses none of the real-time signals. */
#define DISCONNECT_SIGNAL SIGRTMIN

/* Time without a connection after which the servers are probed. */
#define DIAGNOSE_AFTER_MS 1000

/* Created once, for the life of the process */
static int	wake_fd = -1;
static WaitEventSet *wait_set = NULL;
static uint32 wait_event = 0;
static bool keep_at_exit = false;
static bool is_continued = false;	/* the session of another process? */

static ZkLockClient *client = NULL;
static ZkLockClientStatus status;	/* valid if `client` is not NULL */
static ZkLockGeneration last_generation = 0;	/* of the current or last
												 * session */
static int64 begun_at;			/* when it was begun */
static int64 received_at;		/* when messages were last read */

/*
 * The receivers, by their requesters.  Most sessions have a few at a time, and a server's
 * about as many as it has locks.
 */
#ifndef ZKLOCK_RECEIVER_LISTS	/* a simulation has few requesters */
#define ZKLOCK_RECEIVER_LISTS 1024
#endif
static dlist_head receivers[ZKLOCK_RECEIVER_LISTS];
static int	nreceivers = 0;

/*
 * The messages that are not delivered yet, oldest first; whether they may be
 * outdated; and whether there is anything that a wait must end for.
 */
static ZkLockMessage *inbox = NULL;
static ZkLockMessage **inbox_end = &inbox;
static bool stale = false;
static bool news = false;

static int64 reported_lost;		/* what report_connection() has reported */
static uint32 reported_returns;

/* The settings that the session was begun with. */
static char *begun_hosts = NULL;
static char *begun_auth = NULL;
static char *begun_auth_file = NULL;
static char *begun_acl = NULL;
static int	begun_timeout;
static int	begun_idle_timeout;

/*
 * A FATAL error does not unregister the receivers of those who wait, and the end of
 * the transaction frees their memory.  But if there are temporary tables, there is
 * another transaction, whose commit may wait for a confirmation.
 */
static void
forget_receivers_at_exit(void)
{
	static bool forgotten = false;

	if (proc_exit_inprogress && !forgotten)
	{
		memset(receivers, 0, sizeof(receivers));
		nreceivers = 0;
		forgotten = true;
	}
}

/*
 * Messages that may be older than this are outdated, in ns; 0: not known.  What they say of
 * a session that has ended meanwhile does no harm, so this limits how long a waiter relies on
 * a queue that it has read before.
 */
static int64
stale_after(void)
{
	return client == NULL ? 0 : status.timeout * ZKLOCK_NS_PER_MS / 3;
}

/*
 * Read the state and the messages.
 *
 * While the process is suspended, so are its threads.  After that, they read
 * old messages as if these had just arrived.  Only the clock shows this, if it
 * is read often enough.
 */
static void
receive(void)
{
	const ZkLockClientStatus before = status;
	int64		last_received_at = received_at;
	int64		limit = stale_after();

	forget_receivers_at_exit();
	received_at = zklock_clock_now();
	stale |= limit > 0 && received_at - last_received_at > limit;
	*inbox_end = zklock_zkclient_receive(client, &status);
	while (*inbox_end != NULL)
		inbox_end = &(*inbox_end)->next;
	news |= inbox != NULL || stale || status.state != before.state ||
		status.connects != before.connects ||
		status.confirmed != before.confirmed || status.gone != before.gone ||
		status.revocations != before.revocations ||
		status.rooms != before.rooms;
	if (before.connects > 0 && status.connects > before.connects)
		zklock_stats_add(ZKLOCK_RECONNECTS, status.connects - before.connects);
	if (before.connects == 0 && status.connects > 0 && !is_continued)
		zklock_stats_add(ZKLOCK_SESSIONS, 1);
	if (status.state == ZKLOCK_CLIENT_EXPIRED && status.connects > 0 &&
		before.state != ZKLOCK_CLIENT_EXPIRED && !is_continued)
		zklock_stats_add(ZKLOCK_EXPIRIES, 1);
}

static ZkLockMessage *
take_message(void)
{
	ZkLockMessage *message = inbox;

	if (message != NULL)
		inbox = message->next;
	if (inbox == NULL)
		inbox_end = &inbox;
	return message;
}

/* Nobody needs the messages.  What else is new remains so for the next wait. */
static void
free_messages(void)
{
	ZkLockMessage *message;

	Assert(client == NULL || nreceivers == 0);

	while ((message = take_message()) != NULL)
		zklock_zkclient_free(message);
	stale = false;
}

static dlist_head *
receivers_of(uint64 requester)
{
	return &receivers[requester % ZKLOCK_RECEIVER_LISTS];
}

void
zklock_session_register(ZkLockReceiver *receiver, uint64 requester, ZkLockProcess process,
						void *owner, bool *left_out)
{
	Assert(receiver->process == NULL);
	forget_receivers_at_exit();
	receiver->process = process;
	receiver->owner = owner;
	receiver->requester = requester;
	receiver->left_out = left_out;
	dlist_push_tail(receivers_of(requester), &receiver->link);
	nreceivers++;
}

void
zklock_session_unregister(ZkLockReceiver *receiver)
{
	if (receiver->process == NULL)
		return;
	receiver->process = NULL;
	dlist_delete(&receiver->link);
	nreceivers--;
}

/* The messages that follow may be outdated. */
static void
note_stale(void)
{
	dlist_iter	iter;

	for (int i = 0; i < ZKLOCK_RECEIVER_LISTS; i++)
		dlist_foreach(iter, &receivers[i])
	{
		ZkLockReceiver *receiver = dlist_container(ZkLockReceiver, link, iter.cur);

		if (receiver->left_out != NULL)
			*receiver->left_out = true;
	}
}

/* The requester of an event is 0. */
static void
deliver(const ZkLockMessage *message)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, receivers_of(message->tag.requester))
	{
		ZkLockReceiver *receiver = dlist_container(ZkLockReceiver, link, iter.cur);

		if (receiver->requester == message->tag.requester &&
			(receiver->left_out == NULL || !*receiver->left_out))
			receiver->process(message, receiver->owner);
	}
}

/*
 * While there are receivers, and the session goes on, no other function takes
 * messages from the inbox.
 */
void
zklock_session_deliver(void)
{
	static ZkLockMessage *message = NULL;

	if (message != NULL)
		zklock_zkclient_free(message);	/* a receiver has raised an error */
	if (stale)
		note_stale();
	stale = news = false;
	while ((message = take_message()) != NULL)
	{
		deliver(message);
		zklock_zkclient_free(message);
	}
}

static void
close_at_exit(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (client != NULL && !keep_at_exit)
		zklock_zkclient_close(client, CLOSE_TIMEOUT_MS);
	client = NULL;
}

static void
reserve_fds(int n)
{
	for (int i = 0; i < n; i++)
	{
		if (AcquireExternalFD())
			continue;
		while (i-- > 0)
			ReleaseExternalFD();
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not connect to ZooKeeper: out of file descriptors"),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits.")));
	}
}

static void
disconnect_client(ZKLOCK_SIGNAL_ARGS)
{
	int			before = errno;

	zklock_clientsocket_shut();
	errno = before;
}

/*
 * Everything that may fail precedes the first session.  Each step can be
 * repeated after an error in a later one.
 */
static void
prepare_to_wait(void)
{
	if (wake_fd < 0)
	{
		reserve_fds(1);
		wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (wake_fd < 0)
		{
			ReleaseExternalFD();
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not create an event descriptor: %m")));
		}
	}
	if (wait_event == 0)
		wait_event = zklock_compat_wait_event("ZooKeeper");
	if (wait_set == NULL)
	{
		WaitEventSet *set = zklock_compat_wait_event_set(3);

		/* A standalone backend has no postmaster. */
		if (IsUnderPostmaster)
			AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
		AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
		AddWaitEventToSet(set, WL_SOCKET_READABLE, wake_fd, NULL, NULL);
		wait_set = set;
		on_proc_exit(close_at_exit, 0);
		pqsignal(DISCONNECT_SIGNAL, disconnect_client);
	}
}

static void
replace_string(char **kept, const char *value)
{
	char	   *copy = MemoryContextStrdup(TopMemoryContext, value);

	if (*kept != NULL)
		pfree(*kept);
	*kept = copy;
}

/* Begin a session, or continue the one with this identity. */
static void
begin_session(const ZkLockIdentity *former)
{
	ZkLockClientConfig config;

	prepare_to_wait();
	zklock_diagnosis_discard();
	replace_string(&begun_hosts, zklock_guc_hosts);
	replace_string(&begun_auth, zklock_guc_auth);
	replace_string(&begun_auth_file, zklock_guc_auth_file);
	replace_string(&begun_acl, zklock_guc_acl);
	begun_timeout = zklock_guc_session_timeout;
	begun_idle_timeout = zklock_guc_idle_session_timeout;

	config.hosts = begun_hosts;
	config.auth = begun_auth[0] == '\0' && begun_auth_file[0] != '\0' ?
		zklock_authfile_read(begun_auth_file) : begun_auth;
	config.acl = begun_acl;
	config.session_timeout = begun_timeout;
	config.connect_timeout = zklock_guc_connect_timeout;
	config.idle_timeout = begun_idle_timeout;
	config.wake_fd = wake_fd;

	/* as for pg_cancel_backend() */
	config.signals[ZKLOCK_SIGNAL_CANCEL] = SIGINT;
	config.signals[ZKLOCK_SIGNAL_DISCONNECT] = DISCONNECT_SIGNAL;
	config.is_relied_on = zklock_clientsocket_is_relied_on;
	config.former = former;

	reserve_fds(ZKLOCK_CLIENT_FDS);
	client = zklock_zkclient_open(&config);
	if (client == NULL)
	{
		for (int i = 0; i < ZKLOCK_CLIENT_FDS; i++)
			ReleaseExternalFD();
		zklock_errors_out_of_timers();
	}
	memset(&status, 0, sizeof(status));
	reported_lost = 0;
	reported_returns = 0;
	begun_at = received_at = zklock_clock_now();
	is_continued = former != NULL;
	if (++last_generation == 0)
		last_generation = 1;
}

void
zklock_session_begin(const ZkLockIdentity *former)
{
	if (client == NULL)
		begin_session(former);
}

void
zklock_session_keep_at_exit(void)
{
	keep_at_exit = true;
}

void
zklock_session_end(int wait_ms)
{
	if (client == NULL)
		return;
	zklock_zkclient_close(client, wait_ms);
	client = NULL;
	free_messages();
	news = false;
	for (int i = 0; i < ZKLOCK_CLIENT_FDS; i++)
		ReleaseExternalFD();
}

void
zklock_session_close(void)
{
	zklock_session_end(0);
}

static bool
is_over(void)
{
	return zklock_zkclient_is_final(status.state);
}

ZkLockGeneration
zklock_session_generation(void)
{
	return client == NULL || is_over() ? 0 : last_generation;
}

bool
zklock_session_is_current(ZkLockGeneration generation)
{
	return generation != 0 && generation == zklock_session_generation();
}

bool
zklock_session_is_gone(void)
{
	return client != NULL && zklock_zkclient_is_gone(client);
}

void
zklock_session_signal_on_loss(ZkLockSignal signal, bool on)
{
	if (client != NULL)
		zklock_zkclient_signal_on_loss(client, signal, on);
}

bool
zklock_session_is_outdated(void)
{
	return client != NULL &&
		(strcmp(begun_hosts, zklock_guc_hosts) != 0 ||
		 strcmp(begun_auth, zklock_guc_auth) != 0 ||
		 strcmp(begun_auth_file, zklock_guc_auth_file) != 0 ||
		 strcmp(begun_acl, zklock_guc_acl) != 0 ||
		 begun_timeout != zklock_guc_session_timeout ||
		 begun_idle_timeout != zklock_guc_idle_session_timeout);
}

const char *
zklock_session_identity(void)
{
	return begun_auth[0] != '\0' ? "zklock.auth" :
		begun_auth_file[0] != '\0' ? "zklock.auth_file" : NULL;
}

const char *
zklock_session_hosts(void)
{
	return begun_hosts != NULL ? begun_hosts : "";
}

ZkLockClient *
zklock_session_client(void)
{
	return client;
}

const ZkLockClientStatus *
zklock_session_status(void)
{
	return client == NULL ? NULL : &status;
}

/*
 * Log a connection that was lost, and one that is restored, each once,
 * whatever the number of attempts to connect.  The log line does not contain
 * the statement, which is not the cause.  A session that was given up because
 * no connection could be made is not logged, because no lock depended on it.
 */
static void
report_connection(void)
{
	if (status.returns != reported_returns)
	{
		reported_returns = status.returns;
		ereport(zklock_guc_log_level,
				(errmsg("the connection to ZooKeeper is back after " INT64_FORMAT " ms, with server %s",
						status.away / ZKLOCK_NS_PER_MS, status.server),
				 errhidestmt(true),
				 errhidecontext(true)));
	}
	if (status.connects > 0 && status.state == ZKLOCK_CLIENT_CONNECTING &&
		status.lost != reported_lost)
	{
		reported_lost = status.lost;
		ereport(zklock_guc_log_level,
				(errmsg("the connection to ZooKeeper, with server %s, was lost",
						status.server),
				 errhidestmt(true),
				 errhidecontext(true)));
	}
}

/*
 * Log the messages of the client library.  Those about single attempts to
 * connect are logged at DEBUG1.
 */
static void
report_log(void)
{
	char		line[ZKLOCK_LOG_LINE];
	bool		connecting;
	unsigned	suppressed;

	while (zklock_zklog_take(line, &connecting, &suppressed))
		ereport(connecting ? DEBUG1 : zklock_guc_log_level,
				(errmsg_internal("ZooKeeper client: %s", line),
				 suppressed > 0 ?
				 errdetail_internal("%u lines before this one were suppressed.",
									suppressed) : 0));
	if (client != NULL)
		report_connection();
}

#ifdef USE_ASSERT_CHECKING
bool
zklock_session_may_wait(void)
{
	return CritSectionCount == 0 && (InterruptHoldoffCount == 0 || proc_exit_inprogress);
}
#endif

/*
 * Sleep until there is an event, at most `left` nanoseconds.  Shows this wait event, or
 * that of ZooKeeper.
 */
static void
wait_for_event(int64 left, uint32 shown)
{
	int64		limit = stale_after();
	WaitEvent	event;

	if (limit > 0)
		left = Min(left, limit / 2);

	/* Round up, to avoid a busy loop in the last millisecond. */
	left = Max(left, 0) / ZKLOCK_NS_PER_MS + 1;

	Assert(zklock_session_may_wait());

	/* A catalog lookup leaves a snapshot, which would hold back VACUUM. */
	InvalidateCatalogSnapshotConditionally();
	if (WaitEventSetWait(wait_set, (long) Min(left, INT_MAX), &event, 1,
						 shown != 0 ? shown : wait_event) == 0)
		return;
	if (event.events & WL_LATCH_SET)
		ResetLatch(MyLatch);
	if (event.events & WL_SOCKET_READABLE)
	{
		uint64		count;

		if (read(wake_fd, &count, sizeof(count)) < 0 &&
			errno != EAGAIN && errno != EINTR)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read from an event descriptor: %m")));
	}
}

void
zklock_session_wait(int64 deadline)
{
	zklock_session_wait_shown(deadline, 0);
}

void
zklock_session_wait_shown(int64 deadline, uint32 shown)
{
	for (;;)
	{
		int64		left = deadline - zklock_clock_now();

		CHECK_FOR_INTERRUPTS();
		report_log();
		receive();
		if (news || left <= 0)
			break;
		wait_for_event(left, shown);
	}
	zklock_session_deliver();
}

bool
zklock_session_turn(int64 deadline)
{
	prepare_to_wait();
	if (client != NULL)
		receive();
	if (!news)
	{
		wait_for_event(deadline - zklock_clock_now(), 0);
		if (client != NULL)
			receive();
	}
	CHECK_FOR_INTERRUPTS();
	report_log();
	return stale;
}

/* The replies that zklock_session_await() waits for */
typedef struct Replies
{
	int			missing;
	ZkLockProcess process;
	void	   *owner;
} Replies;

static void
process_reply(const ZkLockMessage *message, void *owner)
{
	Replies    *replies = owner;

	replies->missing--;
	replies->process(message, replies->owner);
}

bool
zklock_session_await(uint64 requester, int n, ZkLockProcess process, void *owner,
					 int64 deadline)
{
	Replies		replies = {.missing = n,.process = process,.owner = owner};
	ZkLockReceiver receiver = {0};

	zklock_session_register(&receiver, requester, process_reply, &replies, NULL);
	PG_TRY();
	{
		while (replies.missing > 0 && status.state == ZKLOCK_CLIENT_CONNECTED &&
			   zklock_clock_now() < deadline)
			zklock_session_wait(deadline);
	}
	PG_FINALLY();
	{
		zklock_session_unregister(&receiver);
	}
	PG_END_TRY();
	return replies.missing == 0;
}

bool
zklock_session_await_room(int64 deadline)
{
	while (!zklock_zkclient_has_room(client))
	{
		if (zklock_clock_now() >= deadline)
			return false;
		zklock_session_wait(deadline);
	}
	return true;
}

ZkLockRoom
zklock_session_room(ZkLockNodeKind kind, uint32 owner, size_t path_len)
{
	return zklock_zkclient_room(client, (size_t) zklock_guc_max_session_size * 1024,
								kind, owner, path_len);
}

void
zklock_session_refresh(void)
{
	if (client == NULL)
		return;
	receive();
	if (nreceivers == 0)
		free_messages();
}

void
zklock_session_poll(void)
{
	zklock_session_refresh();
	report_log();
}

void
zklock_session_random(void *bytes, size_t size)
{
	if (!pg_strong_random(bytes, size))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
}

uint64
zklock_session_new_requester(void)
{
	static uint64 last = 0;

	return last += ZKLOCK_REQUESTER_STEP;
}

/*
 * Wait for the first connection of a session, or for one that it has lost.  Returns false at
 * `deadline`.
 */
static bool
wait_until_connected(int64 deadline)
{
	int64		now = zklock_clock_now();
	int64		limit = (status.connects == 0 ? begun_at : now) +
		zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS;
	int64		diagnose_at = now +
		Min((Min(limit, deadline) - now) / 2,
			DIAGNOSE_AFTER_MS * ZKLOCK_NS_PER_MS);

	for (;;)
	{
		zklock_session_poll();
		switch (status.state)
		{
			case ZKLOCK_CLIENT_CONNECTED:
				zklock_diagnosis_discard();
				return true;
			case ZKLOCK_CLIENT_REFUSED:
				zklock_errors_session_refused(zklock_session_identity());
				break;
			case ZKLOCK_CLIENT_FAILED:
				zklock_diagnosis_raise_unreachable(status.why);
				break;
			case ZKLOCK_CLIENT_EXPIRED:
			case ZKLOCK_CLIENT_CLOSED:
				zklock_session_close();
				begin_session(NULL);
				break;
			default:
				break;
		}
		now = zklock_clock_now();
		if (now >= limit)
			zklock_diagnosis_raise_unreachable(psprintf("There was no answer within %d ms (zklock.connect_timeout).",
														zklock_guc_connect_timeout));
		if (now >= deadline)
			return false;
		if (now >= diagnose_at)
		{
			/*
			 * Begin now, so that the results are ready when the error is
			 * raised.
			 */
			zklock_diagnosis_begin();
			diagnose_at = ZKLOCK_NEVER;
		}

		zklock_session_wait(Min(diagnose_at, Min(limit, deadline)));
	}
}

void
zklock_session_connect(int64 deadline)
{
	bool		connected = false;

	zklock_session_poll();
	if (client != NULL && (status.state == ZKLOCK_CLIENT_EXPIRED ||
						   status.state == ZKLOCK_CLIENT_CLOSED))
		zklock_session_close();
	if (client == NULL)
		begin_session(NULL);
	if (status.state == ZKLOCK_CLIENT_CONNECTED)
		return;

	/*
	 * After an error, close a session that was never connected, so that an
	 * idle backend does not continue to connect.  One that was may have
	 * nodes, and ends by itself if it has none.  At the caller's deadline,
	 * keep it.  Otherwise a caller with a short timeout, however often it
	 * retries, might never be connected.
	 */
	PG_TRY();
	{
		connected = wait_until_connected(deadline);
	}
	PG_CATCH();
	{
		if (status.connects == 0 || is_over())
			zklock_session_close();
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!connected)
		zklock_diagnosis_raise_unreachable("There was no answer within the time given.");
}
