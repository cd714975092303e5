/*-------------------------------------------------------------------------
 *
 * acl.h
 *	  Access control lists for ZooKeeper: "scheme:id:permissions,...".
 *
 * Promises that a list that passes the check has the form that ZooKeeper's clients use.  Only
 * ZooKeeper knows the schemes, and what their ids mean.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_ACL_H
#define ZKLOCK_ACL_H

#define ZKLOCK_ACL_MAX 16

/*
 * Check an access control list of at most ZKLOCK_ACL_MAX entries.  Returns
 * NULL if it is valid, otherwise the reason, as a sentence.
 */
extern const char *zklock_acl_check(const char *acl);

#endif							/* ZKLOCK_ACL_H */
