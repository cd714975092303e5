/*-------------------------------------------------------------------------
 *
 * inquiry.h
 *	  What ZooKeeper says of a lock's queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_INQUIRY_H
#define ZKLOCK_INQUIRY_H

#include "zkclient.h"

/*
 * The contender that is first in line on the path: the text that its client
 * put there and its node's name, as a palloc'd sentence for a message.  NULL if
 * that cannot be learned within a second.
 */
extern char *zklock_inquiry_holder(const char *path);

/*
 * The first node on the way from the root to `path` that is neither there nor
 * can be created, palloc'd, and why.  The root itself, "/", is not created: then
 * the reason is ZKLOCK_RC_NO_NODE.  NULL if there is none, or if that cannot be
 * learned within a second.
 */
extern char *zklock_inquiry_missing(const char *path, ZkLockRc *rc, int *code);

#endif							/* ZKLOCK_INQUIRY_H */
