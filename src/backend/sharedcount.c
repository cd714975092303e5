/*-------------------------------------------------------------------------
 *
 * sharedcount.c
 *	  A number that all see: Curator's SharedCount.  See sharedcount.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/errors.h"
#include "backend/flight.h"
#include "backend/sharedcount.h"
#include "protocol/size.h"

static bool
read_count(const char *path, int *value)
{
	ZkLockRead	node = {.path = path};

	zklock_flight_read(&node, 1);
	zklock_flight_check(&node, path, "look at");
	if (node.rc == ZKLOCK_RC_NO_NODE)
		return false;
	if (node.owner != 0 || node.data == NULL ||
		!zklock_size_read_count(node.data, node.length, value))
		zklock_errors_no_count(path);
	return true;
}

bool
zklock_sharedcount_get(const char *path, int *value)
{
	bool		found;

	zklock_flight_connect();
	found = read_count(path, value);
	zklock_flight_over();
	return found;
}

/* Write what is there, or make what is not; false: somebody was faster. */
static bool
write_count(const char *path, int value, bool exists)
{
	char		data[ZKLOCK_COUNT_SIZE];
	ZkLockRead	node = {
		.path = path,
		.kind = exists ? ZKLOCK_WRITE_NODE : ZKLOCK_MAKE_NODE,
		.data = data,
		.length = ZKLOCK_COUNT_SIZE
	};

	zklock_size_write_count(data, value);
	zklock_flight_read(&node, 1);
	zklock_flight_check(&node, path, "set count");
	return node.rc == ZKLOCK_RC_OK;
}

void
zklock_sharedcount_set(const char *path, int value)
{
	int			before;
	int			failures = 0;	/* to make it */

	zklock_flight_connect();
	for (;;)
	{
		bool		exists = read_count(path, &before);

		if (write_count(path, value, exists))
			break;

		/* Somebody deletes it, or makes it, but hardly again and again. */
		if (!exists && ++failures > 1)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("could not create count \"%s\" in ZooKeeper",
							zklock_errors_path(path)),
					 errhint("The path at the end of zklock.hosts must exist.")));
	}
	zklock_flight_over();
}
