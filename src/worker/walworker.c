/*-------------------------------------------------------------------------
 *
 * walworker.c
 *	  The process that publishes positions in the WAL, or asks for them.  See walworker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/guc.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "protocol/walquestion.h"
#include "session/errors.h"
#include "session/failure.h"
#include "session/session.h"
#include "shared/walquestions.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "worker/walworker.h"
#include "worker/worker.h"

/* How often this process looks whether it is in recovery */
#define TURN_MS 1000

/* Pause after an error of a server that answers */
#define PAUSE_MS 1000

/* How often everything is read again, see read_again() */
#define READ_AGAIN_MS 5000

#define NAME_SIZE 64

/* Paths, and the session to which everything else here belongs */
static char asked_path[ZKLOCK_WALPOSITION_PATH_SIZE];
static char servers_path[ZKLOCK_WALPOSITION_PATH_SIZE];
static char forgotten_path[ZKLOCK_WALPOSITION_PATH_SIZE];
static ZkLockGeneration session = 0;

/* When the next question or record is due */
static int64 turn_at = ZKLOCK_NEVER;

/* Of a server that answers */
static bool is_registered = false;
static bool is_open = false;	/* the node "forgotten" was emptied after that */
static char own_path[ZKLOCK_WALPOSITION_PATH_SIZE + NAME_SIZE];
static ZkLockAnswerer answerer;

/* A node of a server that answers, for one that asks */
typedef struct Source
{
	char		name[NAME_SIZE];
	bool		is_watched;		/* its data has not changed since it was read */
	ZkLockWalPosition position; /* question 0: none */
} Source;

/* Of a server that asks */
static bool is_listed = false;	/* if there are none, whoever has asked was
								 * told so */
static int	nsources;
static int	nservers;			/* may be more than are looked at */
static Source sources[ZKLOCK_WAL_SERVERS];
static bool is_forgotten;		/* valid if there are none */
static ZkLockAsker asker;

/* The error that was logged last, as a hash; 0: none since then */
static uint32 logged_error = 0;

/* What a reply contains that is needed here */
typedef struct Reply
{
	ZkLockRc	rc;
	int			code;
	int64		mzxid;
	char		text[ZKLOCK_WALPOSITION_SIZE];
} Reply;

static Source *
find_source(const char *path)
{
	size_t		len = strlen(servers_path);

	if (strncmp(path, servers_path, len) != 0 || path[len] != '/')
		return NULL;
	for (int i = 0; i < nsources; i++)
		if (strcmp(sources[i].name, path + len + 1) == 0)
			return &sources[i];
	return NULL;
}

/* A watch has fired. */
static void
process_event(const ZkLockMessage *message, void *owner)
{
	Source	   *source;

	(void) owner;
	if (strcmp(message->text, asked_path) == 0)
		zklock_answerer_changed(&answerer);
	else if (strcmp(message->text, servers_path) == 0)
		is_listed = false;
	source = find_source(message->text);
	if (source != NULL)
		source->is_watched = false;
}

static void
store_list(const ZkLockMessage *message)
{
	nsources = 0;
	nservers = message->nchildren;
	for (int i = 0; i < message->nchildren && nsources < ZKLOCK_WAL_SERVERS; i++)
		if (strlen(message->children[i]) < NAME_SIZE)
		{
			Source	   *source = &sources[nsources++];

			memset(source, 0, sizeof(*source));
			strlcpy(source->name, message->children[i], NAME_SIZE);
		}
}

static void
store_reply(const ZkLockMessage *message, void *arg)
{
	Reply	   *reply = arg;

	reply->rc = message->rc;
	reply->code = message->code;
	reply->mzxid = message->mzxid;
	if (message->kind == ZKLOCK_MSG_GOT && message->text != NULL &&
		message->length < (int) sizeof(reply->text))
		memcpy(reply->text, message->text, message->length + 1);
	if (message->kind == ZKLOCK_MSG_LISTED && message->rc == ZKLOCK_RC_OK)
		store_list(message);
}

/*
 * Wait for the reply to the request with this tag, if it was accepted.  Returns false if there
 * is none, because the connection is lost; what follows is done again on the next one.
 */
static bool
await(bool accepted, ZkLockTag tag, Reply *reply)
{
	memset(reply, 0, sizeof(*reply));
	if (!accepted)
		zklock_errors_too_many_requests();
	return zklock_session_await(tag.requester, 1, store_reply, reply,
								zklock_clock_now() +
								zklock_guc_connect_timeout * ZKLOCK_NS_PER_MS) &&
		reply->rc != ZKLOCK_RC_LOST && reply->rc != ZKLOCK_RC_OVER;
}

static ZkLockTag
new_tag(void)
{
	return (ZkLockTag) {.requester = zklock_session_new_requester()};
}

static void
check(const Reply *reply, const char *path, const char *request)
{
	if (reply->rc != ZKLOCK_RC_OK && reply->rc != ZKLOCK_RC_NO_NODE)
		zklock_errors_refused(path, "use", psprintf("%s \"%s\"", request, path),
							  zklock_session_identity(), reply->rc, reply->code);
}

/* Create a node of all servers, and what is above it.  It may exist. */
static bool
create_path(const char *path, bool persistent)
{
	ZkLockTag	tag = new_tag();
	Reply		reply;

	if (!await(zklock_zkclient_create_path(zklock_session_client(), path, "", 0, true,
										   persistent, tag), tag, &reply))
		return false;
	if (reply.rc != ZKLOCK_RC_NODE_EXISTS)
		check(&reply, path, "create");
	return true;
}

static bool
get(const char *path, ZkLockWatchUse watch, Reply *reply)
{
	ZkLockTag	tag = new_tag();
	bool		done = await(zklock_zkclient_get(zklock_session_client(), path, watch, tag),
							 tag, reply);

	if (done)
		check(reply, path, "read");
	return done;
}

static bool
set(const char *path, const char *data, Reply *reply)
{
	ZkLockTag	tag = new_tag();
	bool		done = await(zklock_zkclient_set(zklock_session_client(), path, data,
												 (int) strlen(data), tag), tag, reply);

	if (done)
		check(reply, path, "write to");
	return done;
}

/* An event may be lost, or a request that sets a watch has failed: read all again. */
static void
forget_watches(void)
{
	zklock_answerer_changed(&answerer);

	/*
	 * If there was no server, nobody waits for one, and ask() lists them
	 * again.
	 */
	is_listed = is_listed && nservers == 0;
	for (int i = 0; i < nsources; i++)
		sources[i].is_watched = false;
}

/*
 * ZooKeeper sends no event to a session that may not read the node at that moment, and takes
 * the watch away.  So read all again that was read longer ago than this.
 */
static void
read_again(int64 ms)
{
	static int64 read_at = 0;

	if (zklock_clock_now() < read_at + ms * ZKLOCK_NS_PER_MS)
		return;
	forget_watches();
	read_at = zklock_clock_now();
}

/*
 * What belongs to the session is gone with it.  So are the answers: if ZooKeeper was set up
 * anew, numbers of questions start again, and an old answer would seem to be one to a new
 * question.  The number of connections also changes if an event was lost.
 */
static void
note_session(void)
{
	static uint32 connects = 0;

	if (connects != zklock_session_status()->connects)
		forget_watches();
	connects = zklock_session_status()->connects;
	if (session == zklock_session_generation())
		return;
	session = zklock_session_generation();
	is_registered = is_open = is_listed = false;
	memset(&answerer, 0, sizeof(answerer));
	asker.answered = 0;
	nsources = 0;
	zklock_walquestions_set_answers(NULL, 0, 0);
	zklock_walquestions_set_forgotten(false);
}

static bool
is_connected(void)
{
	return zklock_session_status() != NULL &&
		zklock_session_status()->state == ZKLOCK_CLIENT_CONNECTED;
}

/* Is there a session with a connection?  Waits for the first connection of a session. */
static bool
connect_session(void)
{
	if (zklock_session_is_outdated() || zklock_session_is_gone())
		zklock_session_end(0);
	if (!is_connected())
	{
		zklock_walquestions_set_connecting(zklock_clock_now());
		zklock_session_connect(ZKLOCK_NEVER);
		zklock_walquestions_set_connecting(0);
	}
	note_session();
	return is_connected();
}

/* Show that this server answers. */
static void
register_server(void)
{
	uint64		random;
	char		name[NAME_SIZE];
	ZkLockNode *node;
	ZkLockTag	tag = new_tag();
	Reply		reply;

	zklock_session_random(&random, sizeof(random));
	snprintf(name, sizeof(name), "%016llx", (unsigned long long) random);
	snprintf(own_path, sizeof(own_path), "%s/%s", servers_path, name);
	if (!create_path(servers_path, false))
		return;
	node = zklock_zkclient_named_node(zklock_session_client(), 0, servers_path, name, name);
	if (node == NULL)
		zklock_errors_too_many_requests();
	if (!await(zklock_zkclient_create(zklock_session_client(), node, "", tag), tag, &reply) ||
		reply.rc != ZKLOCK_RC_OK)
		zklock_zkclient_delete(node);	/* the next one has another name */
	else
		is_registered = true;
	if (reply.rc != ZKLOCK_RC_NO_NODE)
		check(&reply, own_path, "create");
}

/*
 * This server runs, so nobody may do without its answers any more.  Returns false if the
 * connection is lost.
 */
static bool
empty_forgotten(void)
{
	Reply		reply;

	return set(forgotten_path, "", &reply);
}

/* Read the question.  Its node is created here, not by who asks, which need not be possible. */
static void
read_question(void)
{
	Reply		reply;

	zklock_answerer_reads(&answerer);
	if (!get(asked_path, ZKLOCK_WATCH_NEWCOMER, &reply))
		zklock_answerer_changed(&answerer);
	else if (reply.rc != ZKLOCK_RC_NO_NODE)
		zklock_answerer_read(&answerer, reply.mzxid);
	else
	{
		zklock_answerer_changed(&answerer);
		(void) create_path(asked_path, true);
	}
}

static void
write_record(ZkLockWalPosition *position)
{
	zklock_session_random(position->proof, sizeof(position->proof));
	position->end = zklock_compat_log_message(ZKLOCK_WALPOSITION_PREFIX,
											  (char *) position->proof,
											  sizeof(position->proof));
	position->start = ProcLastRecPtr;
}

static void
publish(const ZkLockWalPosition *position)
{
	char		text[ZKLOCK_WALPOSITION_SIZE];
	Reply		reply;

	zklock_walposition_write(text, position);
	if (!set(own_path, text, &reply))
		return;
	if (reply.rc == ZKLOCK_RC_NO_NODE)
		is_registered = is_open = false;
	else
		zklock_answerer_published(&answerer);
}

/* Go on until there is nothing to do, or an event has to be waited for. */
static void
answer(void)
{
	read_again(READ_AGAIN_MS);
	while (connect_session())
	{
		if (!is_registered)
		{
			/* If it cannot register, it runs all the same. */
			if (empty_forgotten())
				register_server();
			continue;
		}

		/* zk_source_forget() may have found no server just before that. */
		if (!is_open)
		{
			is_open = empty_forgotten();
			continue;
		}
		switch (zklock_answerer_next(&answerer, zklock_clock_now()))
		{
			case ZKLOCK_ANSWER_READ:
				read_question();
				break;
			case ZKLOCK_ANSWER_WRITE:
				write_record(&answerer.position);
				zklock_answerer_written(&answerer, zklock_clock_now());
				break;
			case ZKLOCK_ANSWER_FLUSH:
				XLogFlush(answerer.position.end);
				zklock_answerer_flushed(&answerer);
				break;
			case ZKLOCK_ANSWER_PUBLISH:
				publish(&answerer.position);
				break;
			case ZKLOCK_ANSWER_WAIT:
				logged_error = 0;
				turn_at = zklock_answerer_due(&answerer);
				return;
		}
	}
}

static void
refuse_without_servers(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the server whose WAL is replayed here does not answer"),
			 errdetail("In ZooKeeper, no server with the same system identifier publishes its positions."),
			 errhint("There, have zklock in shared_preload_libraries, zklock.answer_positions on, and the same zklock.hosts.")));
}

/*
 * Find the servers that answer.  Only if there are none, read whether the source is forgotten,
 * after that: a server that registers later empties the node.  Returns false if the
 * connection is lost.
 */
static bool
list_servers(void)
{
	ZkLockTag	tag = new_tag();
	Reply		reply;

	is_listed = true;
	if (!await(zklock_zkclient_list(zklock_session_client(), servers_path,
									ZKLOCK_CHILDREN_ALL, ZKLOCK_WATCH_NEWCOMER, tag), tag, &reply))
		return is_listed = false;
	check(&reply, servers_path, "list the children of");
	if (reply.rc == ZKLOCK_RC_NO_NODE)
		nsources = nservers = 0;
	is_forgotten = false;
	if (nservers == 0)
	{
		if (!get(forgotten_path, ZKLOCK_WATCH_NONE, &reply))
			return is_listed = false;
		is_forgotten = strcmp(reply.text, ZKLOCK_WALPOSITION_FORGOTTEN) == 0;
	}
	zklock_walquestions_set_forgotten(is_forgotten);
	return true;
}

/* Ask the next question, which serves all tickets up to this one. */
static void
ask(uint64 ticket)
{
	Reply		reply;

	if (!set(asked_path, "1", &reply))
		return;
	if (reply.rc == ZKLOCK_RC_NO_NODE)
		refuse_without_servers();
	if ((!is_listed || nservers == 0) && !list_servers())
		return;
	if (nservers == 0 && !is_forgotten)
		refuse_without_servers();
	zklock_asker_asked(&asker, ticket, reply.mzxid, zklock_clock_now());
	if (nservers == 0)
		zklock_asker_answered(&asker, reply.mzxid);
	zklock_walquestions_set_asked(ticket, reply.mzxid);
	logged_error = 0;
}

static void
publish_answers(void)
{
	ZkLockWalAnswer answers[ZKLOCK_WAL_SERVERS];
	int			n = 0;

	for (int i = 0; i < nsources; i++)
		if (sources[i].position.question != 0)
			answers[n++] = (ZkLockWalAnswer) {
				.server = strtoull(sources[i].name, NULL, 16),
				.position = sources[i].position
			};
	zklock_walquestions_set_answers(answers, n, nservers);
}

/* A source whose answer is to be read; NULL: none */
static Source *
next_unread(void)
{
	for (int i = 0; i < nsources; i++)
		if (!sources[i].is_watched)
			return &sources[i];
	return NULL;
}

/* Read the answer of a source.  Returns false if the connection is lost. */
static bool
read_answer(Source *source)
{
	char		path[ZKLOCK_WALPOSITION_PATH_SIZE + NAME_SIZE];
	ZkLockWalPosition position;
	Reply		reply;

	snprintf(path, sizeof(path), "%s/%s", servers_path, source->name);
	source->is_watched = true;
	if (!get(path, ZKLOCK_WATCH_NEWCOMER, &reply))
	{
		source->is_watched = false;
		return false;
	}
	if (reply.rc == ZKLOCK_RC_OK &&
		zklock_walposition_read(reply.text, strlen(reply.text), &position))
	{
		source->position = position;
		zklock_asker_answered(&asker, position.question);
	}
	return true;
}

/* Read what has changed, also meanwhile.  The server that was asked may have gone. */
static void
read_answers(void)
{
	Source	   *source;
	bool		is_gone = false;

	do
	{
		if (!is_listed)
		{
			if (!list_servers())
				return;
			is_gone = nservers == 0 && !is_forgotten;
		}
		source = next_unread();
		if (source != NULL && !read_answer(source))
			break;
	} while (source != NULL || !is_listed);
	publish_answers();
	if (is_gone)
		refuse_without_servers();
}

/* Have all servers answered, as far as is known? */
static bool
is_complete(void)
{
	if (!is_listed)
		return false;
	for (int i = 0; i < nsources; i++)
		if (sources[i].position.question < asker.question)
			return false;
	return nsources == nservers;
}

/*
 * Ask for this ticket, unless that was done, and read the answers.  If the session ends
 * before they are there, who still waits asks again: nobody may be waiting any more.
 */
static void
ask_and_read(uint64 ticket)
{
	if (asker.ticket == ticket && is_complete())
		return;
	if (asker.ticket == ticket && zklock_session_generation() == 0)
	{
		zklock_walquestions_set_lost(ticket);
		return;
	}
	if (!connect_session())
		return;
	read_again(is_complete() ? READ_AGAIN_MS : TURN_MS);
	if (zklock_clock_now() >= zklock_asker_due(&asker, ticket))
		ask(ticket);
	if (asker.question != 0)
		read_answers();

	/* The latch for a ticket that was drawn meanwhile has been reset. */
	turn_at = zklock_asker_due(&asker, zklock_walquestions_newest());
}

/* Tell those who wait for an answer.  Nobody may be waiting any more, so log it as well, once. */
static void
handle_error(MemoryContext before, uint64 ticket)
{
	ErrorData  *error;
	uint32		hash;

	MemoryContextSwitchTo(before);
	error = CopyErrorData();
	hash = string_hash(error->message, strlen(error->message) + 1);
	if (hash != logged_error)
		EmitErrorReport();
	logged_error = hash;
	FlushErrorState();
	AtEOXact_Files(false);
	forget_watches();
	if (ticket != 0)
	{
		ZkLockSessionFailure failure;

		zklock_failure_describe(&failure, error->sqlerrcode, error->message,
								error->detail, error->hint);
		zklock_walquestions_set_failed(ticket, &failure);
		asker.ticket = ticket;
	}
	FreeErrorData(error);
}

/* Do what there is to do.  Returns false after an error. */
static bool
take_turn(void)
{
	MemoryContext before = CurrentMemoryContext;
	uint64		ticket = RecoveryInProgress() ? zklock_walquestions_newest() : 0;
	volatile bool done = true;

	turn_at = ZKLOCK_NEVER;
	PG_TRY();
	{
		if (ticket != 0)
			ask_and_read(ticket);
		else if (!RecoveryInProgress() && zklock_guc_answer_positions)
			answer();
		else if (!RecoveryInProgress())
			zklock_session_end(0);
	}
	PG_CATCH();
	{
		handle_error(before, ticket);
		done = false;
	}
	PG_END_TRY();
	return done;
}

void
zklock_walworker_main(Datum arg)
{
	ZkLockReceiver receiver = {0};
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "zklock WAL positions",
												  ALLOCSET_SMALL_SIZES);
	int64		pause_until = 0;

	(void) arg;
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	/* See worker.c. */
	SetConfigOption("zklock.idle_session_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
	zklock_walposition_path(asked_path, GetSystemIdentifier(), "asked");
	zklock_walposition_path(servers_path, GetSystemIdentifier(), "servers");
	zklock_walposition_path(forgotten_path, GetSystemIdentifier(), "forgotten");
	zklock_walquestions_worker_starts();
	zklock_session_register(&receiver, 0, process_event, NULL, NULL);
	MemoryContextSwitchTo(context);

	for (;;)
	{
		if (zklock_clock_now() >= pause_until && !take_turn())
			pause_until = zklock_clock_now() + PAUSE_MS * ZKLOCK_NS_PER_MS;
		MemoryContextReset(context);
		(void) zklock_session_turn(Min(zklock_clock_now() + TURN_MS * ZKLOCK_NS_PER_MS, turn_at));
		zklock_session_deliver();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
}

void
zklock_walworker_init(void)
{
	zklock_worker_register("zklock WAL positions", "zklock_walworker_main");
}
