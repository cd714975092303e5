/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  The settings, zklock.*
 *
 * Promises that every value has passed its check, so that a connect string,
 * credentials and an ACL can be passed to the client unchanged.  The rules are
 * zklock_hosts_check(), zklock_authfile_check(), zklock_acl_check() and
 * zklock_path_check_lock().  A file with credentials is checked when it is read.
 *
 * PostgreSQL does not check a value before the library has defined the setting.  If the
 * library is preloaded, a server with an invalid one does not start.  Otherwise, and if the
 * value is stored with a database or a role, its sessions begin, with another value.  They
 * learn that from zklock_guc_refused(), and permit no lock.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_GUC_H
#define ZKLOCK_GUC_H

/* How many paths zklock.leaders may have */
#define ZKLOCK_MAX_LEADERS 64

#define ZKLOCK_DEFAULT_HOSTS "127.0.0.1:2181"

typedef enum ZkLockConfirmCommit
{
	ZKLOCK_CONFIRM_OFF,
	ZKLOCK_CONFIRM_LEASE,		/* ask ZooKeeper only when the lease has
								 * expired */
	ZKLOCK_CONFIRM_ALWAYS
} ZkLockConfirmCommit;

typedef enum ZkLockSessionMode
{
	ZKLOCK_SESSION_BACKEND,		/* each backend has a session */
	ZKLOCK_SESSION_SERVER		/* the server's worker has one session for all */
} ZkLockSessionMode;

typedef enum ZkLockAdvisoryLocks
{
	ZKLOCK_ADVISORY_SERVER,		/* PostgreSQL's own */
	ZKLOCK_ADVISORY_CLUSTER,	/* in ZooKeeper */
	ZKLOCK_ADVISORY_BOTH		/* both */
} ZkLockAdvisoryLocks;

typedef enum ZkLockCatchUp
{
	ZKLOCK_CATCH_UP_WARN,		/* warn a session that did not catch up */
	ZKLOCK_CATCH_UP_OFF,
	ZKLOCK_CATCH_UP_GUARD,		/* catch up before zk_lock_guard() and _wait()
								 * return */
	ZKLOCK_CATCH_UP_ALL			/* catch up before any lock is returned */
} ZkLockCatchUp;

typedef enum ZkLockOnLoss
{
	ZKLOCK_ON_LOSS_AUTO,		/* ZKLOCK_ON_LOSS_DISCONNECT with an advisory
								 * lock of session scope, otherwise
								 * ZKLOCK_ON_LOSS_CANCEL */
	ZKLOCK_ON_LOSS_CANCEL,
	ZKLOCK_ON_LOSS_DISCONNECT
} ZkLockOnLoss;

extern char *zklock_guc_hosts;
extern char *zklock_guc_auth;	/* takes precedence over zklock_guc_auth_file */
extern char *zklock_guc_auth_file;
extern char *zklock_guc_acl;
extern int	zklock_guc_max_locks_per_backend;	/* 0: any number */
extern int	zklock_guc_session_timeout; /* ms */
extern int	zklock_guc_connect_timeout; /* ms */
extern int	zklock_guc_try_timeout; /* ms */
extern int	zklock_guc_idle_session_timeout;	/* ms; 0: none */
extern int	zklock_guc_default_scope;	/* number of the label of
										 * zk_lock_scope, from 0 */
extern bool zklock_guc_revocable;
extern bool zklock_guc_deadlock_detection;
extern int	zklock_guc_confirm_commit;	/* a ZkLockConfirmCommit */
extern int	zklock_guc_on_loss; /* a ZkLockOnLoss */
extern int	zklock_guc_catch_up;	/* a ZkLockCatchUp */
extern int	zklock_guc_catch_up_timeout;	/* ms */
extern int	zklock_guc_log_level;	/* an elevel */
extern int	zklock_guc_session_mode;	/* a ZkLockSessionMode */

/* These have an effect only with shared_preload_libraries. */
extern int	zklock_guc_handover_time;	/* ms; 0: each claim has its own node */
extern int	zklock_guc_keep_time;	/* see zklock_slots_keep_time() */
extern int	zklock_guc_max_kept_locks;
extern int	zklock_guc_max_locks;
extern bool zklock_guc_answer_positions;
extern char *zklock_guc_leaders;	/* see zklock_path_next() */

/* Bytes of the nodes of a session, in kB: see zkroom.h. */
extern int	zklock_guc_max_session_size;

/*
 * Does this backend have the same hosts, credentials and ACL as the server's
 * worker?  No, if any of them is set for the database, the role or the
 * session.
 */
extern bool zklock_guc_is_servers(void);

/* Define the settings, when the library is loaded. */
extern void zklock_guc_init(void);

/*
 * The path that all lock paths must be below, in the encoding of the database.
 * Empty: no restriction.
 */
extern const char *zklock_guc_path_prefix(void);

/*
 * Where the advisory locks of this database are, in its encoding.  Empty: at
 * their default path.
 */
extern const char *zklock_guc_advisory_path(void);

/*
 * Are advisory locks taken in ZooKeeper, alone or in addition to PostgreSQL's own?  Also
 * true if that is not known, and then no lock is permitted.
 */
extern bool zklock_guc_advisory_is_redirected(void);

/* Are advisory locks taken in ZooKeeper and in PostgreSQL? */
extern bool zklock_guc_advisory_is_both(void);

/* How often was that set, perhaps to the same value, in this process? */
extern uint32 zklock_guc_advisory_changes(void);

/*
 * The name of a setting that this session must obey, and whose value is
 * unknown, because it was refused when the library was loaded, or when the
 * session began.  As long as there is one, no lock is permitted.  `*stored` if
 * the refused value came from a configuration file, or was stored with the role
 * or the database, rather than from the client.  NULL: all are known.
 */
extern const char *zklock_guc_refused(bool *stored);

#endif							/* ZKLOCK_GUC_H */
