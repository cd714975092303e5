/*-------------------------------------------------------------------------
 *
 * sharedcount.c
 *	  A number of leases that all clients share: Curator's SharedCount.  See
 *	  sharedcount.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "protocol/size.h"
#include "session/errors.h"
#include "sql/batch.h"
#include "sql/sharedcount.h"

/* Argument and result of a function called by zklock_batch_in_session() */
typedef struct Count
{
	const char *path;
	int			value;
	bool		exists;
} Count;

static bool
read_count(const char *path, int *value)
{
	ZkLockOp	node = {.path = path};

	zklock_batch_run(&node, 1);
	zklock_batch_check(&node, path, "look at");
	if (node.rc == ZKLOCK_RC_NO_NODE)
		return false;
	if (node.owner != 0 || node.data == NULL ||
		!zklock_size_read_count(node.data, node.length, value))
		zklock_errors_no_count(path);
	return true;
}

static void
get(void *arg)
{
	Count	   *count = arg;

	count->exists = read_count(count->path, &count->value);
}

bool
zklock_sharedcount_get(const char *path, int *value)
{
	Count		count = {.path = path};

	zklock_batch_in_session(get, &count);
	*value = count.value;
	return count.exists;
}

/*
 * Set an existing count, or create it.  Returns false if the node was deleted
 * or created meanwhile.
 */
static bool
write_count(const char *path, int value, bool exists)
{
	char		data[ZKLOCK_COUNT_SIZE];
	ZkLockOp	node = {
		.path = path,
		.kind = exists ? ZKLOCK_OP_SET : ZKLOCK_OP_CREATE,
		.data = data,
		.length = ZKLOCK_COUNT_SIZE
	};

	zklock_size_write_count(data, value);
	zklock_batch_run(&node, 1);
	zklock_batch_check(&node, path, "set count");
	return node.rc == ZKLOCK_RC_OK;
}

static void
set_count(void *arg)
{
	const Count *count = arg;
	int			before;
	int			failures = 0;	/* to create it */

	for (;;)
	{
		bool		exists = read_count(count->path, &before);

		if (write_count(count->path, count->value, exists))
			break;

		/*
		 * Another client may delete or create it at the same time, but hardly
		 * repeatedly.
		 */
		if (!exists && ++failures > 1)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("could not create count \"%s\" in ZooKeeper",
							zklock_errors_path(count->path)),
					 errhint("The path at the end of zklock.hosts must exist.")));
	}
}

void
zklock_sharedcount_set(const char *path, int value)
{
	Count		count = {.path = path,.value = value};

	zklock_batch_in_session(set_count, &count);
}
