/*-------------------------------------------------------------------------
 *
 * authfile.c
 *	  Credentials in a file: zklock.auth_file.  See authfile.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/authfile.h"
#include "storage/fd.h"

const char *
zklock_authfile_check(const char *auth)
{
	/*
	 * A blank instead of the colon is the syntax of zkCli.sh.  ZooKeeper
	 * would report no reason for it.
	 */
	size_t		scheme = strcspn(auth, ": \t");

	return auth[0] == '\0' || (scheme > 0 && auth[scheme] == ':') ? NULL :
		"Write scheme:credentials, as in \"digest:user:password\".";
}

static void
refuse(const char *path, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIG_FILE_ERROR),
			 errmsg("credentials file \"%s\" %s", path, why)));
}

/* The same requirements as for the server's private key file. */
static void
check_access(const char *path, const struct stat *st)
{
	if (!S_ISREG(st->st_mode))
		refuse(path, "is not a regular file");
	if (st->st_uid != geteuid() && st->st_uid != 0)
		refuse(path, "must be owned by the database user or root");
	if (st->st_mode & (st->st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO :
					   S_IRWXG | S_IRWXO))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("credentials file \"%s\" has group or world access",
						path),
				 errdetail("File must have permissions u=rw (0600) or less if owned by the database user, or permissions u=rw,g=r (0640) or less if owned by root.")));
}

/* Read the file into `text`, which has ZKLOCK_AUTHFILE_MAX + 1 bytes. */
static void
read_all(const char *path, char *text)
{
	struct stat st;
	size_t		len = 0;
	ssize_t		n;

	/* Without O_NONBLOCK, opening a pipe would wait. */
	int			fd = OpenTransientFile(path, O_RDONLY | O_NONBLOCK | PG_BINARY);

	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open credentials file \"%s\": %m", path)));
	if (fstat(fd, &st) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat credentials file \"%s\": %m", path)));
	check_access(path, &st);

	while ((n = read(fd, text + len, ZKLOCK_AUTHFILE_MAX + 1 - len)) > 0)
		len += n;
	if (n < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read credentials file \"%s\": %m", path)));
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close credentials file \"%s\": %m", path)));

	if (len > ZKLOCK_AUTHFILE_MAX)
		refuse(path, "is too long");
	if (memchr(text, '\0', len) != NULL)
		refuse(path, "is not a text file");
	text[len] = '\0';
}

/*
 * Find the only line of `text` that counts.  Returns NULL if there is none, or
 * more than one.
 */
static char *
find_line(char *text)
{
	char	   *found = NULL;
	char	   *next;

	for (char *line = text; line != NULL; line = next)
	{
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (line[0] != '\0' && line[strlen(line) - 1] == '\r')
			line[strlen(line) - 1] = '\0';
		if (line[0] == '#' || line[strspn(line, " \t")] == '\0')
			continue;
		if (found != NULL)
			return NULL;
		found = line;
	}
	return found;
}

char *
zklock_authfile_read(const char *path)
{
	char		text[ZKLOCK_AUTHFILE_MAX + 1];
	char	   *auth;

	read_all(path, text);
	auth = find_line(text);
	if (auth == NULL || zklock_authfile_check(auth) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("credentials file \"%s\" must have one line scheme:credentials",
						path),
				 errdetail("Lines that are blank or begin with \"#\" do not count."),
				 errhint("Write a line such as \"digest:user:password\".")));
	return pstrdup(auth);
}
