/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Text from and for other programs: encodings and control characters.
 *
 * Promises a result for any bytes, and never an error.  Shared catalogs
 * contain names in the encoding of every database, and other clients' nodes
 * contain any bytes.  Parts that cannot be converted, and all control
 * characters, become "?".
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_TEXT_H
#define ZKLOCK_TEXT_H

/*
 * Convert text from the encoding of this database to UTF-8, and back.  The
 * result is palloc'd.
 */
extern char *zklock_text_to_utf8(const char *text);
extern char *zklock_text_from_utf8(const char *text);

/*
 * Format the id of a ZooKeeper session as ZooKeeper's tools do.  The result is
 * palloc'd.
 */
extern char *zklock_text_session(int64 session);

#endif							/* ZKLOCK_TEXT_H */
