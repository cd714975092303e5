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

extern char *zklock_hosts;
extern char *zklock_auth;		/* comes before zklock_auth_file */
extern char *zklock_auth_file;
extern char *zklock_acl;
extern int	zklock_session_timeout; /* ms */
extern int	zklock_connect_timeout; /* ms */
extern int	zklock_confirm_commit;	/* a ZkLockConfirmCommit */
extern int	zklock_log_level;	/* an elevel */
extern int	zklock_max_locks;	/* set in shared_preload_libraries only */

extern void zklock_guc_init(void);

#endif							/* ZKLOCK_GUC_H */
