/*-------------------------------------------------------------------------
 *
 * authfile.h
 *	  Credentials in a file: zklock.auth_file.
 *
 * Promises that what is in the file gets into no message and no log line, and
 * that it is not used if others could have read it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_AUTHFILE_H
#define ZKLOCK_AUTHFILE_H

/* Longest file that is taken for credentials, in bytes. */
#define ZKLOCK_AUTHFILE_MAX 8192

/*
 * NULL if `auth` is scheme:credentials, which may be empty; else how it is to
 * be written.
 */
extern const char *zklock_authfile_check(const char *auth);

/*
 * The one line scheme:credentials of the file, palloc'd.  Lines that are blank
 * or begin with "#" do not count.  A relative path is taken from the data
 * directory.
 *
 * Errors: as of the file system, such as 58P01 or 42501, if it cannot be read;
 * F0000 if others have access to it, or if it is not such a file.
 */
extern char *zklock_authfile_read(const char *path);

#endif							/* ZKLOCK_AUTHFILE_H */
