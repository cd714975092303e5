/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  The settings, zklock.*  See guc.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/parallel.h"
#include "access/xact.h"
#include "common/authfile.h"
#include "common/compat.h"
#include "common/guc.h"
#include "common/stored.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "protocol/acl.h"
#include "protocol/hosts.h"
#include "protocol/path.h"
#include "utils/plancache.h"

char	   *zklock_guc_hosts;
char	   *zklock_guc_auth;
char	   *zklock_guc_auth_file;
char	   *zklock_guc_acl;
static char *path_prefix;
static char *advisory_path;
int			zklock_guc_max_locks_per_backend;
int			zklock_guc_session_timeout;
int			zklock_guc_connect_timeout;
int			zklock_guc_try_timeout;
int			zklock_guc_idle_session_timeout;
bool		zklock_guc_revocable;
bool		zklock_guc_deadlock_detection;

/* PostgreSQL requires that the variables of enums contain their defaults. */
int			zklock_guc_confirm_commit = ZKLOCK_CONFIRM_LEASE;
int			zklock_guc_on_loss = ZKLOCK_ON_LOSS_AUTO;
int			zklock_guc_log_level = LOG;

int			zklock_guc_session_mode = ZKLOCK_SESSION_BACKEND;
int			zklock_guc_handover_time = 100;
int			zklock_guc_keep_time = -1;
int			zklock_guc_max_kept_locks = 1024;
int			zklock_guc_default_scope = 0;
int			zklock_guc_max_locks = 2048;
int			zklock_guc_max_session_size = 1700;
bool		zklock_guc_answer_positions = true;
char	   *zklock_guc_leaders;
int			zklock_guc_catch_up = ZKLOCK_CATCH_UP_WARN;
int			zklock_guc_catch_up_timeout;
static int	advisory_locks = ZKLOCK_ADVISORY_SERVER;
static uint32 advisory_changes = 0;

/*
 * Settings that restrict a session, which therefore must not set them.  The
 * first four define a session in ZooKeeper.
 */
enum
{
	HOSTS,
	AUTH,
	AUTH_FILE,
	ACL,
	N_OF_SESSION,
	CONFIRM_COMMIT = N_OF_SESSION,
	SESSION_MODE,
	PATH_PREFIX,
	MAX_LOCKS_PER_BACKEND,
	MAX_SESSION_SIZE,
	ADVISORY_LOCKS,
	ADVISORY_PATH,
	N_RULES
};
static struct
{
	const char *name;
	const struct config_generic *setting;	/* PostgreSQL's record, once
											 * defined */
	GucSource	refused;		/* see find_refused(), find_refused_at_login() */
}			rules[N_RULES] = {
	[HOSTS] = {.name = "zklock.hosts"},
	[AUTH] = {.name = "zklock.auth"},
	[AUTH_FILE] = {.name = "zklock.auth_file"},
	[ACL] = {.name = "zklock.acl"},
	[CONFIRM_COMMIT] = {.name = "zklock.confirm_commit"},
	[SESSION_MODE] = {.name = "zklock.session_mode"},
	[PATH_PREFIX] = {.name = "zklock.path_prefix"},
	[MAX_LOCKS_PER_BACKEND] = {.name = "zklock.max_locks_per_backend"},
	[MAX_SESSION_SIZE] = {.name = "zklock.max_session_size"},
	[ADVISORY_LOCKS] = {.name = "zklock.advisory_locks"},
	[ADVISORY_PATH] = {.name = "zklock.advisory_path"}
};

static const struct config_enum_entry confirm_options[] = {
	{"off", ZKLOCK_CONFIRM_OFF, false},
	{"lease", ZKLOCK_CONFIRM_LEASE, false},
	{"always", ZKLOCK_CONFIRM_ALWAYS, false},
	{NULL, 0, false}
};

static const struct config_enum_entry on_loss_options[] = {
	{"auto", ZKLOCK_ON_LOSS_AUTO, false},
	{"cancel", ZKLOCK_ON_LOSS_CANCEL, false},
	{"disconnect", ZKLOCK_ON_LOSS_DISCONNECT, false},
	{NULL, 0, false}
};

static const struct config_enum_entry session_options[] = {
	{"backend", ZKLOCK_SESSION_BACKEND, false},
	{"server", ZKLOCK_SESSION_SERVER, false},
	{NULL, 0, false}
};

static const struct config_enum_entry advisory_options[] = {
	{"server", ZKLOCK_ADVISORY_SERVER, false},
	{"both", ZKLOCK_ADVISORY_BOTH, false},
	{"cluster", ZKLOCK_ADVISORY_CLUSTER, false},
	{NULL, 0, false}
};

static const struct config_enum_entry catch_up_options[] = {
	{"warn", ZKLOCK_CATCH_UP_WARN, false},
	{"off", ZKLOCK_CATCH_UP_OFF, false},
	{"guard", ZKLOCK_CATCH_UP_GUARD, false},
	{"all", ZKLOCK_CATCH_UP_ALL, false},
	{NULL, 0, false}
};

static const struct config_enum_entry scope_options[] = {
	{"session", 0, false},
	{"transaction", 1, false},
	{NULL, 0, false}
};

static const struct config_enum_entry level_options[] = {
	{"debug5", DEBUG5, false},
	{"debug4", DEBUG4, false},
	{"debug3", DEBUG3, false},
	{"debug2", DEBUG2, false},
	{"debug1", DEBUG1, false},
	{"log", LOG, false},
	{"notice", NOTICE, false},
	{"warning", WARNING, false},
	{NULL, 0, false}
};

bool
zklock_guc_is_servers(void)
{
	/*
	 * The worker uses the values of the configuration files and of the
	 * command line.
	 */
	for (int i = 0; i < N_OF_SESSION; i++)
		if (rules[i].setting->source > PGC_S_ARGV)
			return false;
	return true;
}

static bool
check_hosts(char **newval, void **extra, GucSource source)
{
	const char *why = zklock_hosts_check(*newval);

	(void) extra;
	(void) source;
	if (why == NULL)
		return true;
	GUC_check_errdetail("%s", why);
	GUC_check_errhint("Write host:port, several separated by commas, and a path to work below at the end, if any: \"zk1:2181,zk2:2181,zk3:2181/app\".");
	return false;
}

/*
 * Is a value of this source stored, and visible to other users?  A change of a
 * value in a configuration file is also written to the server's log.
 * PGC_S_TEST is a value that will be stored with a role, a database or a
 * function.
 */
static bool
is_kept(GucSource source)
{
	switch (source)
	{
		case PGC_S_ENV_VAR:
		case PGC_S_FILE:
		case PGC_S_ARGV:
		case PGC_S_GLOBAL:
		case PGC_S_DATABASE:
		case PGC_S_USER:
		case PGC_S_DATABASE_USER:
		case PGC_S_TEST:
			return true;
		default:
			return false;
	}
}

/* Messages must not contain the value, because it is secret. */
static bool
check_auth(char **newval, void **extra, GucSource source)
{
	const char *how = zklock_authfile_check(*newval);

	(void) extra;
	if (**newval != '\0' && is_kept(source))
	{
		GUC_check_errcode(ERRCODE_CANT_CHANGE_RUNTIME_PARAM);
		GUC_check_errmsg("parameter \"zklock.auth\" can be set within a session only");
		GUC_check_errdetail("Elsewhere its value could be read by others.");
		GUC_check_errhint("Write the credentials to a file, and set zklock.auth_file to its path.");
		return false;
	}
	if (how == NULL)
		return true;
	GUC_check_errmsg("invalid value for parameter \"zklock.auth\"");
	GUC_check_errhint("%s", how);
	return false;
}

static const char *
show_auth(void)
{
	return zklock_guc_auth[0] == '\0' ? "" : "********";
}

static bool
check_acl(char **newval, void **extra, GucSource source)
{
	const char *why = zklock_acl_check(*newval);

	(void) extra;
	(void) source;
	if (why == NULL)
		return true;
	GUC_check_errdetail("%s", why);
	GUC_check_errhint("Write scheme:id:permissions, several separated by commas, as in \"world:anyone:r,auth::cdrwa\".");
	return false;
}

/*
 * The encoding of non-ASCII characters is unknown here.  In a database where
 * they are not valid, no path has that prefix.
 */
static bool
check_path_setting(char **newval, void **extra, GucSource source)
{
	const char *why;
	char	   *ascii;

	(void) extra;
	(void) source;
	if (*newval == NULL || **newval == '\0')
		return true;
	ascii = pstrdup(*newval);
	for (char *c = ascii; *c != '\0'; c++)
		if (IS_HIGHBIT_SET(*c))
			*c = 'x';
	why = zklock_path_check_lock(ascii, strlen(ascii));
	pfree(ascii);
	if (why == NULL)
		return true;
	GUC_check_errdetail("%s", why);
	GUC_check_errhint("Write a path as in ZooKeeper, for example \"/shop\".");
	return false;
}

/*
 * A path must have room for any key.  A session that sets it has its prefix already.  In
 * all other cases the prefix may be another one by the time when it counts, and then the
 * locks are refused (advisory/key.c).
 */
static bool
check_advisory_path(char **newval, void **extra, GucSource source)
{
	size_t		prefix_len = source == PGC_S_SESSION && !IsParallelWorker() ?
		strlen(zklock_guc_path_prefix()) : 0;

	if (!check_path_setting(newval, extra, source))
		return false;
	if (prefix_len + strlen(*newval) <= ZKLOCK_PATH_ADVISORY_MAX)
		return true;
	GUC_check_errdetail("With zklock.path_prefix, the path of advisory locks must not be longer than %d bytes.",
						ZKLOCK_PATH_ADVISORY_MAX);
	return false;
}

/*
 * Find the settings of the rules whose value was refused when the library was
 * loaded, and where that value came from.  Until then, PostgreSQL accepts any
 * value of them.
 *
 * A stored value can only be invalid.  A client that connects may also set what
 * it is not permitted to set.  PostgreSQL prefers the client's value to the
 * values that are set for its role, its database or all, and when the library
 * is loaded, it has already forgotten the others.  So nothing shows which value
 * this session must obey, until one comes from the same source as the refused
 * one or a higher one.  The default would be wrong, too: it might lead to
 * another ZooKeeper.
 *
 * A value that is set within the session, such as that of a function which loads
 * the library, only hides the refused one for a while.
 *
 * Must be called before the settings are defined, and again after that.
 */
static void
find_refused(bool defined)
{
	for (int i = 0; i < N_RULES; i++)
	{
		/* This one can only be set within a session. */
		if (i == AUTH)
			continue;
		if (!defined)
		{
			const struct config_generic *given = zklock_compat_setting(rules[i].name);

			if (given != NULL)
				rules[i].refused = given->reset_source != PGC_S_DEFAULT ?
					given->reset_source : given->source;
		}
		else if ((rules[i].refused == PGC_S_SESSION ? rules[i].setting->source :
				  rules[i].setting->reset_source) != PGC_S_DEFAULT)
			rules[i].refused = PGC_S_DEFAULT;
	}
}

/*
 * If the library is preloaded, PostgreSQL checks what is stored for the database and the
 * role when a session begins.  It warns of a value that it refuses, and goes on without it:
 * with the value of the configuration files, or the default, which are wrong as above.  A valid
 * value that is not used was stored after that: then this session has begun before.
 */
static void
note_stored(const char *name, const char *value, GucSource source)
{
	for (int i = 0; i < N_RULES; i++)
		if (i != AUTH && pg_strcasecmp(rules[i].name, name) == 0 &&
			rules[i].setting->reset_source < source &&
			set_config_option(name, value, PGC_SUSET, source, GUC_ACTION_SET, false, DEBUG1,
							  false) == 0)
			rules[i].refused = source;
}

/*
 * PostgreSQL has no hook where it has just used what is stored.  It does that in the first
 * transaction of a process, before anything else can be executed there, so this is the end
 * of that transaction.  A standalone backend uses nothing that is stored.
 */
static void
find_refused_at_login(XactEvent event, void *arg)
{
	static bool done = false;

	(void) arg;
	if (done || event != XACT_EVENT_PRE_COMMIT || !OidIsValid(MyDatabaseId) ||
		!IsUnderPostmaster)
		return;
	done = true;
	zklock_stored_find(note_stored);
}

/* The names of the settings that have a value before the library defines them */
static List *
given_names(void)
{
	static const char prefix[] = "zklock.";
	int			n;
	struct config_generic **settings = zklock_compat_settings(&n);
	List	   *given = NIL;

	for (int i = 0; i < n; i++)
		if (pg_strncasecmp(settings[i]->name, prefix, strlen(prefix)) == 0)
			given = lappend(given, pstrdup(settings[i]->name));
	return given;
}

/*
 * PostgreSQL does not start with an invalid value for a setting of its own, or with a setting
 * that it does not know.  If the setting is a library's, it only warns, and goes on as if
 * nothing had been given.  But then the server could be at another ZooKeeper than all others,
 * and would not know.
 */
static void
refuse_to_start(const List *given)
{
	ListCell   *cell;

	foreach(cell, given)
	{
		const struct config_generic *setting = zklock_compat_setting(lfirst(cell));
		bool		known = (setting->flags & GUC_CUSTOM_PLACEHOLDER) == 0;

		if (known && setting->source != PGC_S_DEFAULT)
			continue;
		ereport(FATAL,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 known ? errmsg("invalid value for parameter \"%s\"", setting->name) :
				 errmsg("unrecognized configuration parameter \"%s\"", setting->name),
				 setting->sourcefile == NULL ? 0 :
				 errdetail("It is set in file \"%s\", line %d.",
						   setting->sourcefile, setting->sourceline),
				 known ? errhint("A warning before this message gives the reason.") : 0));
	}
}

const char *
zklock_guc_path_prefix(void)
{
	return path_prefix != NULL ? path_prefix : "";
}

const char *
zklock_guc_advisory_path(void)
{
	return advisory_path;
}

static bool
is_refused(int rule)
{
	return rules[rule].setting->source < rules[rule].refused;
}

bool
zklock_guc_advisory_is_redirected(void)
{
	return advisory_locks != ZKLOCK_ADVISORY_SERVER || is_refused(ADVISORY_LOCKS);
}

bool
zklock_guc_advisory_is_both(void)
{
	return advisory_locks == ZKLOCK_ADVISORY_BOTH;
}

uint32
zklock_guc_advisory_changes(void)
{
	return advisory_changes;
}

/*
 * A plan has the functions of one value.  After a refused value, the same value
 * from another source is another answer, too.
 */
static void
assign_advisory_locks(int newval, void *extra)
{
	(void) newval;
	(void) extra;
	advisory_changes++;
	ResetPlanCache();
}

const char *
zklock_guc_refused(bool *stored)
{
	for (int i = 0; i < N_RULES; i++)
		if (is_refused(i))
		{
			*stored = is_kept(rules[i].refused);
			return rules[i].name;
		}
	return NULL;
}

/*
 * The server's worker begins the server's session with the value of the
 * configuration files.  If a session that uses it sets another value, warn
 * that the value has no effect.
 */
static bool
check_session_timeout(int *newval, void **extra, GucSource source)
{
	(void) newval;
	(void) extra;
	if ((source == PGC_S_SESSION || source == PGC_S_TEST) &&
		zklock_guc_session_mode == ZKLOCK_SESSION_SERVER && zklock_guc_is_servers() &&
		!IsParallelWorker())
		ereport(WARNING,
				(errmsg("\"zklock.session_timeout\" has no effect on locks in the server's session"),
				 errhint("Set it in a configuration file, or with ALTER SYSTEM.  A session of this backend's own, with zklock.session_mode = \"backend\", uses the value.")));
	return true;
}

/*
 * These paths are used by the worker, which has no database, and so no encoding: they are
 * those of ZooKeeper, in UTF-8.
 */
static bool
check_leaders(char **newval, void **extra, GucSource source)
{
	const char *why = zklock_path_check_list(*newval, ZKLOCK_MAX_LEADERS);

	(void) extra;
	(void) source;
	if (why == NULL)
		return true;
	GUC_check_errdetail("%s", why);
	GUC_check_errhint("Write at most %d lock paths in UTF-8, separated by commas: \"/leaders/cron, /leaders/mail\".",
					  ZKLOCK_MAX_LEADERS);
	return false;
}

/* With less than a second, a session might end before it is used. */
static bool
check_idle_session_timeout(int *newval, void **extra, GucSource source)
{
	(void) extra;
	(void) source;
	if (*newval == 0 || *newval >= 1000)
		return true;
	GUC_check_errdetail("It must be 0, for six times the session's timeout, or at least 1 second.");
	return false;
}

void
zklock_guc_init(void)
{
	bool		preload = process_shared_preload_libraries_in_progress;
	List	   *given = preload ? given_names() : NIL;

	if (!preload)
		find_refused(false);
	DefineCustomStringVariable("zklock.hosts",
							   "ZooKeeper servers to connect to.",
							   "host:port, separated by commas, followed by an optional path that all lock paths are below.",
							   &zklock_guc_hosts, ZKLOCK_DEFAULT_HOSTS,
							   PGC_SUSET, 0,
							   check_hosts, NULL, NULL);
	DefineCustomStringVariable("zklock.auth",
							   "Credentials for ZooKeeper, as scheme:credentials.",
							   "For tests and tools; what is to last belongs in the file that zklock.auth_file names.",
							   &zklock_guc_auth, "",
							   PGC_SUSET,
							   GUC_SUPERUSER_ONLY | GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   check_auth, NULL, show_auth);
	DefineCustomStringVariable("zklock.auth_file",
							   "File with the credentials for ZooKeeper.",
							   "One line scheme:credentials, read when a session with ZooKeeper begins.  A relative path is taken from the data directory.",
							   &zklock_guc_auth_file, "",
							   PGC_SUSET, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("zklock.acl",
							   "Access control list of the nodes that are created.",
							   "scheme:id:permissions, separated by commas.",
							   &zklock_guc_acl, "world:anyone:cdrwa",
							   PGC_SUSET, GUC_SUPERUSER_ONLY,
							   check_acl, NULL, NULL);
	DefineCustomStringVariable("zklock.path_prefix",
							   "All lock paths must be below this one.",
							   "Empty: they may be anywhere.",
							   &path_prefix, NULL,
							   PGC_SUSET, 0,
							   check_path_setting, NULL, NULL);
	DefineCustomIntVariable("zklock.max_locks_per_backend",
							"How many locks a backend may hold and wait for at once.",
							"Zero: as many as it likes.",
							&zklock_guc_max_locks_per_backend, 0, 0, INT_MAX,
							PGC_SUSET, 0,
							NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.session_timeout",
							"Time after which ZooKeeper gives up a silent session and its locks.",
							"The server may negotiate another value; see zk_session().",
							&zklock_guc_session_timeout, 10000, 1000,
							24 * 60 * 60 * 1000,
							PGC_USERSET, GUC_UNIT_MS,
							check_session_timeout, NULL, NULL);
	DefineCustomIntVariable("zklock.connect_timeout",
							"Longest wait for a connection to ZooKeeper.",
							NULL,
							&zklock_guc_connect_timeout, 10000, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.try_timeout",
							"Longest wait for ZooKeeper's answer if a lock is taken only if it is free.",
							NULL,
							&zklock_guc_try_timeout, 1000, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.idle_session_timeout",
							"Time after which a session with ZooKeeper that is not used is closed.",
							"Zero: after six times the session's timeout, which is also the longest time.",
							&zklock_guc_idle_session_timeout, 0, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							check_idle_session_timeout, NULL, NULL);
	DefineCustomEnumVariable("zklock.default_scope",
							 "Scope of locks that are taken without naming one.",
							 NULL,
							 &zklock_guc_default_scope, 0,
							 scope_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("zklock.revocable",
							 "Locks that are taken can be revoked, which cancels the holder's statement.",
							 "See zk_lock_revoke().",
							 &zklock_guc_revocable, false,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	/* As deadlock_timeout, because others may be in the same deadlock. */
	DefineCustomBoolVariable("zklock.deadlock_detection",
							 "A wait for a lock that is part of a deadlock is ended.",
							 "A waiting backend looks for deadlocks every deadlock_timeout.",
							 &zklock_guc_deadlock_detection, true,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);

	/*
	 * A commit without the check endangers all other users of the lock, so
	 * users must not turn it off.
	 */
	DefineCustomEnumVariable("zklock.confirm_commit",
							 "When a commit asks ZooKeeper whether locks are still held.",
							 "\"lease\" waits only if ZooKeeper has not confirmed the session for two thirds of its timeout.",
							 &zklock_guc_confirm_commit, ZKLOCK_CONFIRM_LEASE,
							 confirm_options,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);

	/*
	 * A role that set it to "server" and called a SECURITY DEFINER function
	 * would make that function's locks local.
	 */
	DefineCustomEnumVariable("zklock.advisory_locks",
							 "Where PostgreSQL's functions for advisory locks take them.",
							 "\"server\" has them in this server; \"cluster\" in ZooKeeper, with extension zklock_advisory and shared_preload_libraries; \"both\" in both.",
							 &advisory_locks, ZKLOCK_ADVISORY_SERVER,
							 advisory_options,
							 PGC_SUSET, 0,
							 NULL, assign_advisory_locks, NULL);
	DefineCustomStringVariable("zklock.advisory_path",
							   "Where the advisory locks of a database are in ZooKeeper, below zklock.path_prefix.",
							   "Empty: at /pg_advisory/ and the name of the database.",
							   &advisory_path, "",
							   PGC_SUSET, 0,
							   check_advisory_path, NULL, NULL);
	DefineCustomEnumVariable("zklock.on_loss",
							 "What the loss of a lock ends.",
							 "\"cancel\" ends the running statement; \"disconnect\" also the connection, even if it is idle; \"auto\" does so if the session has an advisory lock of session scope.",
							 &zklock_guc_on_loss, ZKLOCK_ON_LOSS_AUTO,
							 on_loss_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomEnumVariable("zklock.log_level",
							 "Message level of lost connections and of what the ZooKeeper client library logs.",
							 NULL,
							 &zklock_guc_log_level, LOG,
							 level_options,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);

	/*
	 * With a session for each of its backends, one role could use up the
	 * connections that ZooKeeper permits to the server.  Then the worker
	 * could not connect again.
	 */
	DefineCustomEnumVariable("zklock.session_mode",
							 "Whose ZooKeeper session holds the locks.",
							 "\"backend\" has each backend begin one; \"server\" uses one for all, if the library is in shared_preload_libraries.",
							 &zklock_guc_session_mode, ZKLOCK_SESSION_BACKEND,
							 session_options,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.handover_time",
							"How long backends may hand a lock over among themselves before it is other servers' turn.",
							"With zklock.session_mode = \"server\".  0 has each wait in ZooKeeper's queue.",
							&zklock_guc_handover_time, 100, 0, 60 * 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.keep_time",
							"How long the server keeps a lock that no backend uses any more, until another client wants it.",
							"With zklock.session_mode = \"server\" and zklock.handover_time.  0 gives each lock up at once; -1 keeps advisory locks for 1 s, and gives others up at once.",
							&zklock_guc_keep_time, -1, -1, 60 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("zklock.max_kept_locks",
							"How many locks the server may keep at a time.",
							"They use room of zklock.max_locks that is free.",
							&zklock_guc_max_kept_locks, 1024, 0, 8192,
							PGC_SIGHUP, 0,
							NULL, NULL, NULL);

	/*
	 * With a larger value, one session could stop all of ZooKeeper: see
	 * zkroom.h.  The default is 83 % of what servers with their default of
	 * jute.maxbuffer can read, 2,097,150 bytes.
	 */
	DefineCustomIntVariable("zklock.max_session_size",
							"How many bytes the paths of a ZooKeeper session's nodes may have.",
							"ZooKeeper's servers must be able to read them in one transaction, whose limit is twice their jute.maxbuffer.",
							&zklock_guc_max_session_size, 1700, 64, INT_MAX / 1024,
							PGC_SIGHUP, GUC_UNIT_KB,
							NULL, NULL, NULL);

	DefineCustomEnumVariable("zklock.catch_up",
							 "What a lock does about data that this server does not show yet.",
							 "\"all\" catches up with each lock, \"guard\" with those that guard a transaction, \"warn\" warns a session that takes one of these on a standby without zk_catch_up().",
							 &zklock_guc_catch_up, ZKLOCK_CATCH_UP_WARN,
							 catch_up_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.catch_up_timeout",
							"Longest wait of zk_catch_up().",
							NULL,
							&zklock_guc_catch_up_timeout, 5000, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("zklock.answer_positions",
							 "This server publishes positions in its WAL for the standbys that ask for them.",
							 "With shared_preload_libraries.  It has a ZooKeeper session for that.",
							 &zklock_guc_answer_positions, true,
							 PGC_SIGHUP, 0,
							 NULL, NULL, NULL);

	DefineCustomStringVariable("zklock.leaders",
							   "Lock paths for which this server campaigns: it leads while it has the lock.",
							   "Separated by commas.  With shared_preload_libraries, and not in recovery.",
							   &zklock_guc_leaders, "",
							   PGC_SIGHUP, 0,
							   check_leaders, NULL, NULL);

	/*
	 * Without shared_preload_libraries the value is not used.  But a line in
	 * postgresql.conf must not be reported as invalid in each session.
	 */
	DefineCustomIntVariable("zklock.max_locks",
							"How many locks, held or waited for by a backend, there is room for in shared memory.",
							"With zklock.session_mode = \"backend\", others are only counted; see zk_server_status.",
							&zklock_guc_max_locks, 2048, 16, 1024 * 1024,
							preload ? PGC_POSTMASTER : PGC_SIGHUP, 0,
							NULL, NULL, NULL);
	for (int i = 0; i < N_RULES; i++)
		rules[i].setting = zklock_compat_setting(rules[i].name);
	if (preload)
	{
		refuse_to_start(given);
		RegisterXactCallback(find_refused_at_login, NULL);
	}
	else
		find_refused(true);
	MarkGUCPrefixReserved("zklock");
}
