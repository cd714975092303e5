/*-------------------------------------------------------------------------
 *
 * guc.h
 *	  The settings, zklock.*
 *
 * Promises that every value passed its check: a connect string, an
 * authentication and an ACL can be handed to the client as they are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_GUC_H
#define ZKLOCK_GUC_H

#define ZKLOCK_DEFAULT_HOSTS "127.0.0.1:2181"

typedef enum ZkLockConfirmCommit
{
	ZKLOCK_CONFIRM_OFF,
	ZKLOCK_CONFIRM_LEASE,		/* ask only when the lease has run out */
	ZKLOCK_CONFIRM_ALWAYS
} ZkLockConfirmCommit;

typedef enum ZkLockSessionMode
{
	ZKLOCK_SESSION_BACKEND,		/* each backend has one of its own */
	ZKLOCK_SESSION_SERVER		/* the server's worker has one for all */
} ZkLockSessionMode;

extern char *zklock_hosts;
extern char *zklock_auth;		/* comes before zklock_auth_file */
extern char *zklock_auth_file;
extern char *zklock_acl;
extern int	zklock_max_locks_per_backend;	/* 0: any number */
extern int	zklock_session_timeout; /* ms */
extern int	zklock_connect_timeout; /* ms */
extern int	zklock_idle_session_timeout;	/* ms; 0: none */
extern int	zklock_default_scope;	/* which label of zk_lock_scope, from 0 on */
extern bool zklock_revocable;
extern int	zklock_confirm_commit;	/* a ZkLockConfirmCommit */
extern int	zklock_log_level;	/* an elevel */
extern int	zklock_session; /* a ZkLockSessionMode */

/* These two mean something with shared_preload_libraries only. */
extern int	zklock_local_handover;	/* ms; 0: each claim has its own node */
extern int	zklock_max_locks;
/*
 * Are hosts, credentials and ACL what the server's worker has, too?  They are not
 * if any of them is this database's, role's or session's.
 */
extern bool zklock_guc_is_servers(void);

extern void zklock_guc_init(void);

/* What all paths must be below, in the encoding of the database; empty: anywhere. */
extern const char *zklock_guc_path_prefix(void);

/*
 * The name of a setting that this session has to obey and whose value nobody knows:
 * then nothing is permitted.  NULL: all are known.
 */
extern const char *zklock_guc_hidden(void);

#endif							/* ZKLOCK_GUC_H */
