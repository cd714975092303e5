/*-------------------------------------------------------------------------
 *
 * acl.h
 *	  Access control lists for ZooKeeper: "scheme:id:permissions,...".
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ACL_H
#define ZKLOCK_ACL_H

#define ZKLOCK_ACL_MAX 16

/* NULL if `acl` is such a list, of ZKLOCK_ACL_MAX entries at most; else why it is not. */
extern const char *zklock_acl_check(const char *acl);

#endif							/* ZKLOCK_ACL_H */
