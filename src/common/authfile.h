/*-------------------------------------------------------------------------
 *
 * authfile.h
 *	  Credentials in a file: zklock.auth_file.
 *
 * Promises that no message and no log line contains the contents of the file,
 * and that the file is not used if other users could have read it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZKLOCK_AUTHFILE_H
#define ZKLOCK_AUTHFILE_H

/* Maximum size of a file with credentials, in bytes. */
#define ZKLOCK_AUTHFILE_MAX 8192

/*
 * Check credentials.  Returns NULL if `auth` is empty or has the form
 * scheme:credentials, otherwise a hint that gives the form.
 */
extern const char *zklock_authfile_check(const char *auth);

/*
 * Return the one line scheme:credentials of the file, palloc'd.  Lines that
 * are blank or begin with "#" do not count.  A relative path is taken from the
 * data directory.
 *
 * Errors: those of the file system, such as 58P01 or 42501, if the file cannot
 * be read; F0000 if other users have access to it, or if it has other
 * contents.
 */
extern char *zklock_authfile_read(const char *path);

#endif							/* ZKLOCK_AUTHFILE_H */
