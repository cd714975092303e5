/*-------------------------------------------------------------------------
 *
 * sessionfile.c
 *	  Saves the identity of the server's session in a file.  See sessionfile.h.
 *
 * The file is in pg_stat_tmp.  pg_basebackup and pg_rewind leave out the files
 * of extensions there, and PostgreSQL removes only its own files.  It is not
 * flushed to disk, because it is not used after a restart of the machine.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/fd.h"
#include "worker/sessionfile.h"

#define SESSION_FILE PG_STAT_TMP_DIR "/zklock_session"
#define SESSION_FILE_TMP SESSION_FILE ".tmp"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* Contents of the file.  All fields before the identity must match. */
typedef struct SessionFile
{
	char		magic[8];
	char		boot_id[40];

	/* of the data directory; a copy has others while the original exists */
	uint64		device;
	uint64		inode;

	ZkLockIdentity identity;
	int			timeout;
} SessionFile;

/* Read a file, up to `size` bytes.  Returns the number of bytes, or -1. */
static ssize_t
read_file(const char *path, void *data, size_t size)
{
	int			fd = BasicOpenFilePerm(path, O_RDONLY | PG_BINARY, 0);
	ssize_t		n;

	if (fd < 0)
		return -1;
	n = read(fd, data, size);
	close(fd);
	return n;
}

/*
 * Set the fields that must match.  Returns false if they cannot be determined.
 */
static bool
describe_file(SessionFile *file)
{
	struct stat st;

	memset(file, 0, sizeof(*file));
	strlcpy(file->magic, "zklock1", sizeof(file->magic));
	if (read_file(BOOT_ID, file->boot_id, sizeof(file->boot_id) - 1) <= 0 ||
		stat(DataDir, &st) != 0)
		return false;
	file->device = st.st_dev;
	file->inode = st.st_ino;
	return true;
}

/*
 * Replace the file atomically: a worker that is killed here leaves the
 * previous file, or none.
 */
static bool
replace_file(const SessionFile *file)
{
	int			fd;
	bool		ok;

	unlink(SESSION_FILE_TMP);
	fd = BasicOpenFilePerm(SESSION_FILE_TMP,
						   O_WRONLY | O_CREAT | O_EXCL | PG_BINARY,
						   S_IRUSR | S_IWUSR);
	if (fd < 0)
		return false;
	errno = ENOSPC;				/* if write() does not set it */
	ok = write(fd, file, sizeof(*file)) == sizeof(*file);
	close(fd);
	return ok && rename(SESSION_FILE_TMP, SESSION_FILE) == 0;
}

void
zklock_sessionfile_write(const ZkLockIdentity *identity, int timeout)
{
	SessionFile file;

	if (!describe_file(&file))
		return;
	file.identity = *identity;
	file.timeout = timeout;
	if (!replace_file(&file))
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", SESSION_FILE),
				 errdetail("After a crash of the server its locks are held until their session has expired.")));
}

bool
zklock_sessionfile_read(ZkLockIdentity *identity, int *timeout)
{
	SessionFile expected;
	SessionFile file;

	if (!describe_file(&expected) ||
		read_file(SESSION_FILE, &file, sizeof(file)) != sizeof(file) ||
		memcmp(&file, &expected, offsetof(SessionFile, identity)) != 0)
		return false;
	*identity = file.identity;
	*timeout = file.timeout;
	return true;
}

void
zklock_sessionfile_remove(void)
{
	unlink(SESSION_FILE);
}
