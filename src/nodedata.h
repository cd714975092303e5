/*-------------------------------------------------------------------------
 *
 * nodedata.h
 *	  The text in our nodes, which says who holds or waits.
 *
 * Promises that it is valid UTF-8 of less than 1,024 bytes, whatever names are
 * in it, and that no name can be taken for another part of it.
 *
 * It is a list of key=value, separated by spaces: host, port, pid, database,
 * user, application.  As in a connection string of libpq, a value of anything
 * but ASCII letters, digits and _.:/@%+- is within single quotes, and a \ comes
 * before each ' and \ in it.  Other clients' nodes have other texts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_NODEDATA_H
#define ZKLOCK_NODEDATA_H

/* That of this backend, palloc'd. */
extern char *zklock_nodedata_self(void);

#endif							/* ZKLOCK_NODEDATA_H */
