/*-------------------------------------------------------------------------
 *
 * pathscan.c
 *	  Finds the paths in ZooKeeper that are used as locks.  See pathscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "protocol/contender.h"
#include "protocol/mode.h"
#include "protocol/path.h"
#include "session/errors.h"
#include "sql/batch.h"
#include "sql/pathscan.h"
#include "utils/memutils.h"

/* The role of a node that is read */
typedef enum Part
{
	PART_PATH,					/* an ordinary path */
	PART_LEAF,					/* an ordinary path without children */
	PART_LEASES,				/* the leases of a semaphore */
	PART_MUTEX					/* the mutex of a semaphore */
} Part;

typedef struct ScanNode
{
	char	   *path;
	Part		part;
	ZkLockUse  *semaphore;		/* the semaphore of this node */
} ScanNode;

typedef struct PathScan
{
	const char *parent;
	List	   *uses;			/* of ZkLockUse; may include unused semaphores */
	List	   *next;			/* of ScanNode, to be read */
} PathScan;

static const ZkLockModeRow *const semaphores = &zklock_mode_table[ZKLOCK_SEMAPHORE];

static char *
child_path(const char *path, const char *name)
{
	return psprintf("%s/%s", strcmp(path, "/") == 0 ? "" : path, name);
}

static ZkLockUse *
add_use(PathScan *scan, const char *path, const char *kind, int contenders)
{
	ZkLockUse  *use = palloc(sizeof(ZkLockUse));

	use->path = pstrdup(path);
	use->kind = kind;
	use->contenders = contenders;
	use->is_open = use->is_closed = false;
	scan->uses = lappend(scan->uses, use);
	return use;
}

/* The path, which is palloc'd, is freed with the node. */
static void
add_node(PathScan *scan, char *path, Part part, ZkLockUse *semaphore)
{
	ScanNode   *node = palloc(sizeof(ScanNode));

	node->path = path;
	node->part = part;
	node->semaphore = semaphore;
	scan->next = lappend(scan->next, node);
}

static int
count_contenders(const ZkLockOp *list)
{
	int			n = 0;
	int64		number;

	for (int i = 0; i < list->nchildren; i++)
		if (zklock_contender_parse(list->children[i], &number) != NULL)
			n++;
	return n;
}

static bool
has_child(const ZkLockOp *list, const char *name)
{
	for (int i = 0; i < list->nchildren; i++)
		if (strcmp(list->children[i], name) == 0)
			return true;
	return false;
}

/* Add the children that are no contenders. */
static void
descend(PathScan *scan, const ZkLockOp *list)
{
	ZkLockUse  *semaphore = NULL;

	if (has_child(list, semaphores->dir))
		semaphore = add_use(scan, list->path, semaphores->name, 0);
	for (int i = 0; i < list->nchildren; i++)
	{
		const char *name = list->children[i];
		char	   *path;
		int64		number;

		if (zklock_contender_parse(name, &number) != NULL)
			continue;
		path = child_path(list->path, name);
		if (strlen(path) > ZKLOCK_PATH_MAX || strcmp(path, "/zookeeper") == 0 ||
			strcmp(path, ZKLOCK_PATH_RESERVED) == 0)
			pfree(path);
		else if (semaphore != NULL && strcmp(name, semaphores->dir) == 0)
			add_node(scan, path, PART_LEASES, semaphore);
		else if (semaphore != NULL && strcmp(name, semaphores->mutex) == 0)
			add_node(scan, path, PART_MUTEX, semaphore);
		else
			add_node(scan, path, PART_PATH, NULL);
	}
}

/* Returns whether the node has to be read once more, as another part. */
static bool
process_node(PathScan *scan, ScanNode *node, const ZkLockOp *op)
{
	int			contenders;

	if (op->rc == ZKLOCK_RC_NO_NODE)
		return false;
	if (strcmp(node->path, scan->parent) == 0)
		zklock_batch_check(op, scan->parent, "look at");
	if (op->rc != ZKLOCK_RC_OK)
	{
		(void) add_use(scan, node->path, NULL, 0);
		return false;
	}

	switch (node->part)
	{
		case PART_PATH:
			contenders = count_contenders(op);
			if (contenders > 0)
				(void) add_use(scan, node->path, "queue", contenders);
			descend(scan, op);
			node->part = PART_LEAF;
			return op->nchildren == 0;
		case PART_LEAF:
			if (op->owner != 0)
				(void) add_use(scan, node->path,
							   zklock_mode_table[ZKLOCK_SIMPLE].name, 1);
			break;
		case PART_LEASES:
			node->semaphore->contenders += op->nchildren;
			break;
		case PART_MUTEX:
			node->semaphore->contenders += count_contenders(op);
			break;
	}
	return false;
}

/*
 * Read the nodes that were found last, in one flight.  The others wait, so the memory for
 * replies does not depend on the size of the tree.
 */
static void
read_some(PathScan *scan, MemoryContext replies)
{
	int			n = Min(list_length(scan->next), ZKLOCK_BATCH_FLIGHT);
	int			first = list_length(scan->next) - n;
	MemoryContext before = MemoryContextSwitchTo(replies);
	ScanNode  **nodes = palloc(n * sizeof(ScanNode *));
	ZkLockOp   *ops = palloc0(n * sizeof(ZkLockOp));

	for (int i = 0; i < n; i++)
	{
		nodes[i] = list_nth(scan->next, first + i);
		ops[i].path = nodes[i]->path;
		ops[i].kind = nodes[i]->part == PART_LEAF ? ZKLOCK_OP_GET :
			ZKLOCK_OP_LIST;
	}
	scan->next = list_truncate(scan->next, first);
	zklock_batch_run(ops, n);

	MemoryContextSwitchTo(before);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (process_node(scan, nodes[i], &ops[i]))
		{
			scan->next = lappend(scan->next, nodes[i]);
			continue;
		}
		pfree(nodes[i]->path);
		pfree(nodes[i]);
	}
	MemoryContextReset(replies);
}

static const char *
parent_path(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == path ? "/" : pnstrdup(path, slash - path);
}

static bool
is_of_mode(const ZkLockUse *use, ZkLockMode mode)
{
	return use->kind != NULL &&
		strcmp(use->kind, zklock_mode_table[mode].name) == 0;
}

/*
 * Read the access control lists that decide who may create and delete the
 * contenders' nodes.  They are those of the nodes above.
 */
static void
read_acls(ZkLockUse *uses, int n)
{
	ZkLockOp   *ops = palloc_extended((2 * (Size) n + 1) * sizeof(ZkLockOp),
									  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	int			nreads = 0;
	const ZkLockOp *op = ops;

	for (int i = 0; i < n; i++)
	{
		const char *path = uses[i].path;

		if (is_of_mode(&uses[i], ZKLOCK_SEMAPHORE))
		{
			ops[nreads++].path = child_path(path, semaphores->dir);
			ops[nreads++].path = child_path(path, semaphores->mutex);
		}
		else
			ops[nreads++].path = is_of_mode(&uses[i], ZKLOCK_SIMPLE) ?
				parent_path(path) : path;
	}
	for (int i = 0; i < nreads; i++)
		ops[i].kind = ZKLOCK_OP_GET_ACL;
	zklock_batch_run(ops, nreads);

	for (int i = 0; i < n; i++)
	{
		bool		found = false;
		bool		known = true;

		/*
		 * The node above the mutex's contenders may not exist, because
		 * ZooKeeper removes it when it has no children.
		 */
		for (int lists = is_of_mode(&uses[i], ZKLOCK_SEMAPHORE) ? 2 : 1;
			 lists > 0; lists--, op++)
		{
			uses[i].is_open |= op->open;
			found |= op->rc == ZKLOCK_RC_OK;
			known &= op->rc == ZKLOCK_RC_OK || op->rc == ZKLOCK_RC_NO_NODE;
		}
		uses[i].is_closed = found && known && !uses[i].is_open;
	}
}

static int
compare_uses(const void *a, const void *b)
{
	const ZkLockUse *p = a;
	const ZkLockUse *q = b;
	int			by_path = strcmp(p->path, q->path);

	return by_path != 0 || p->kind == NULL || q->kind == NULL ? by_path :
		strcmp(p->kind, q->kind);
}

ZkLockUse *
zklock_pathscan(const char *parent, int *n)
{
	PathScan	scan = {.parent = parent};
	MemoryContext replies = AllocSetContextCreate(CurrentMemoryContext, "zklock replies",
												  ALLOCSET_DEFAULT_SIZES);
	ZkLockUse  *uses;
	ListCell   *cell;

	add_node(&scan, pstrdup(parent), PART_PATH, NULL);
	while (scan.next != NIL)
		read_some(&scan, replies);
	MemoryContextDelete(replies);

	uses = palloc_extended((list_length(scan.uses) + 1) * sizeof(ZkLockUse), MCXT_ALLOC_HUGE);
	*n = 0;
	foreach(cell, scan.uses)
	{
		const ZkLockUse *use = lfirst(cell);

		/* Leave out semaphores without contenders. */
		if (use->kind == NULL || use->contenders > 0)
			uses[(*n)++] = *use;
	}
	qsort(uses, *n, sizeof(ZkLockUse), compare_uses);
	read_acls(uses, *n);
	return uses;
}
