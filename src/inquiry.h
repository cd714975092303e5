/*-------------------------------------------------------------------------
 *
 * inquiry.h
 *	  What ZooKeeper says of a lock's queue.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_INQUIRY_H
#define ZKLOCK_INQUIRY_H

/*
 * The contender that is first in line on the path: the text that its client
 * put there and its node's name, as a palloc'd sentence for a message.  NULL if
 * that cannot be learned within a second.
 */
extern char *zklock_inquiry_holder(const char *path);

#endif							/* ZKLOCK_INQUIRY_H */
