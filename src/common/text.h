/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Text that others wrote, or that others will read.
 *
 * Promises an answer to any bytes, and never an error: shared catalogs hold
 * names of every database's encoding, and other clients' nodes whatever they
 * like.  What cannot be converted, and all control characters, become "?".
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_TEXT_H
#define ZKLOCK_TEXT_H

/* Between the encoding of this database and UTF-8; palloc'd. */
extern char *zklock_text_to_utf8(const char *text);
extern char *zklock_text_from_utf8(const char *text);

/* The id of a ZooKeeper session, as ZooKeeper's tools print it; palloc'd. */
extern char *zklock_text_session(int64 session);

#endif							/* ZKLOCK_TEXT_H */
