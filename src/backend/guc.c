/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  The settings, zklock.*  See guc.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "backend/authfile.h"
#include "backend/compat.h"
#include "backend/guc.h"
#include "client/zkclient.h"
#include "client/zkhosts.h"
#include "miscadmin.h"

char	   *zklock_hosts;
char	   *zklock_auth;
char	   *zklock_auth_file;
char	   *zklock_acl;
int			zklock_session_timeout;
int			zklock_connect_timeout;

/* PostgreSQL wants the variables of enums to begin with their defaults. */
int			zklock_confirm_commit = ZKLOCK_CONFIRM_LEASE;
int			zklock_log_level = LOG;

int			zklock_max_locks = 2048;

static const struct config_enum_entry confirm_options[] = {
	{"off", ZKLOCK_CONFIRM_OFF, false},
	{"lease", ZKLOCK_CONFIRM_LEASE, false},
	{"always", ZKLOCK_CONFIRM_ALWAYS, false},
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

static bool
check_hosts(char **newval, void **extra, GucSource source)
{
	const char *why = zklock_zkhosts_check(*newval);

	(void) extra;
	(void) source;
	if (why == NULL)
		return true;
	GUC_check_errdetail("%s", why);
	GUC_check_errhint("Write host:port, several separated by commas, and a path to work below at the end, if any: \"zk1:2181,zk2:2181,zk3:2181/app\".");
	return false;
}

/*
 * Is a value from there kept, and shown to others?  What is in a configuration
 * file also gets into the server's log, when it changes.  PGC_S_TEST is what is
 * to be kept with a role, a database or a function.
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

/* The value is a secret: no message must repeat it. */
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
	return zklock_auth[0] == '\0' ? "" : "********";
}

static bool
check_acl(char **newval, void **extra, GucSource source)
{
	const char *why = zklock_zkclient_acl_check(*newval);

	(void) extra;
	(void) source;
	if (why == NULL)
		return true;
	GUC_check_errdetail("%s", why);
	GUC_check_errhint("Write scheme:id:permissions, several separated by commas, as in \"world:anyone:r,auth::cdrwa\".");
	return false;
}

void
zklock_guc_init(void)
{
	DefineCustomStringVariable("zklock.hosts",
							   "ZooKeeper servers to connect to.",
							   "host:port, separated by commas, followed by an optional path that all lock paths are below.",
							   &zklock_hosts, ZKLOCK_DEFAULT_HOSTS,
							   PGC_SUSET, 0,
							   check_hosts, NULL, NULL);
	DefineCustomStringVariable("zklock.auth",
							   "Credentials for ZooKeeper, as scheme:credentials.",
							   "For tests and tools; what is to last belongs in the file that zklock.auth_file names.",
							   &zklock_auth, "",
							   PGC_SUSET,
							   GUC_SUPERUSER_ONLY | GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   check_auth, NULL, show_auth);
	DefineCustomStringVariable("zklock.auth_file",
							   "File with the credentials for ZooKeeper.",
							   "One line scheme:credentials.  A relative path is taken from the data directory.",
							   &zklock_auth_file, "",
							   PGC_SUSET, 0,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("zklock.acl",
							   "Access control list of the nodes that are created.",
							   "scheme:id:permissions, separated by commas.",
							   &zklock_acl, "world:anyone:cdrwa",
							   PGC_SUSET, 0,
							   check_acl, NULL, NULL);
	DefineCustomIntVariable("zklock.session_timeout",
							"Time after which ZooKeeper gives up a silent session and its locks.",
							"The server may negotiate another value; see zk_session().",
							&zklock_session_timeout, 10000, 1000,
							24 * 60 * 60 * 1000,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("zklock.connect_timeout",
							"Longest wait for a connection to ZooKeeper.",
							NULL,
							&zklock_connect_timeout, 10000, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomEnumVariable("zklock.confirm_commit",
							 "When a commit asks ZooKeeper whether locks are still held.",
							 "\"lease\" asks only if nothing has confirmed the session for a third of its timeout.",
							 &zklock_confirm_commit, ZKLOCK_CONFIRM_LEASE,
							 confirm_options,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);
	DefineCustomEnumVariable("zklock.log_level",
							 "Message level of lost connections and of what the ZooKeeper client library logs.",
							 NULL,
							 &zklock_log_level, LOG,
							 level_options,
							 PGC_SUSET, 0,
							 NULL, NULL, NULL);
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("zklock.max_locks",
								"How many locks, held or waited for by a backend, others can see.",
								"Beyond that they are only counted; see zk_lock_stats.",
								&zklock_max_locks, 2048, 16, 1024 * 1024,
								PGC_POSTMASTER, 0,
								NULL, NULL, NULL);
	MarkGUCPrefixReserved("zklock");
}
