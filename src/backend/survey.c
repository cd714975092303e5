/*-------------------------------------------------------------------------
 *
 * survey.c
 *	  Which paths in ZooKeeper are in use as locks.  See survey.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "backend/errors.h"
#include "backend/flight.h"
#include "backend/survey.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "protocol/contender.h"
#include "protocol/path.h"
#include "protocol/recipe.h"

/* What a node is to be looked at as. */
typedef enum Part
{
	PART_PATH,					/* a path like any other */
	PART_LEAF,					/* the same, known to have no children */
	PART_LEASES,				/* of a semaphore */
	PART_MUTEX					/* likewise */
} Part;

typedef struct Spot
{
	const char *path;
	Part		part;
	ZkLockUse  *semaphore;		/* that it is a part of */
} Spot;

typedef struct Survey
{
	const char *parent;
	List	   *uses;			/* of ZkLockUse; some turn out to be none */
	List	   *next;			/* of Spot: what the next flight is for */
	int			looked_at;
} Survey;

static const char *
child_path(const char *path, const char *name)
{
	return psprintf("%s/%s", strcmp(path, "/") == 0 ? "" : path, name);
}

static ZkLockUse *
add_use(Survey *survey, const char *path, const char *kind, int contenders)
{
	ZkLockUse  *use = palloc(sizeof(ZkLockUse));

	use->path = path;
	use->kind = kind;
	use->contenders = contenders;
	use->is_open = use->is_closed = false;
	survey->uses = lappend(survey->uses, use);
	return use;
}

static void
add_spot(Survey *survey, const char *path, Part part, ZkLockUse *semaphore)
{
	Spot	   *spot = palloc(sizeof(Spot));

	if (++survey->looked_at > ZKLOCK_SURVEY_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many nodes in ZooKeeper below \"%s\"",
						zklock_errors_path(survey->parent)),
				 errdetail("There are more than %d.", ZKLOCK_SURVEY_MAX),
				 errhint("Look below a part of it.")));
	spot->path = path;
	spot->part = part;
	spot->semaphore = semaphore;
	survey->next = lappend(survey->next, spot);
}

static int
count_contenders(const ZkLockRead *list)
{
	int			n = 0;
	int64		number;

	for (int i = 0; i < list->nchildren; i++)
		if (zklock_contender_parse(list->children[i], &number) != NULL)
			n++;
	return n;
}

static bool
has_child(const ZkLockRead *list, const char *name)
{
	for (int i = 0; i < list->nchildren; i++)
		if (strcmp(list->children[i], name) == 0)
			return true;
	return false;
}

/* What is below a path that is no contender is looked at next. */
static void
descend(Survey *survey, const ZkLockRead *list)
{
	ZkLockUse  *semaphore = NULL;

	if (has_child(list, "leases"))
		semaphore = add_use(survey, list->path,
							zklock_recipe_mode_name(ZKLOCK_SEMAPHORE), 0);
	for (int i = 0; i < list->nchildren; i++)
	{
		const char *name = list->children[i];
		const char *path;
		int64		number;

		if (zklock_contender_parse(name, &number) != NULL)
			continue;
		path = child_path(list->path, name);
		if (strlen(path) > ZKLOCK_PATH_MAX || strcmp(path, "/zookeeper") == 0)
			continue;
		if (semaphore != NULL && strcmp(name, "leases") == 0)
			add_spot(survey, path, PART_LEASES, semaphore);
		else if (semaphore != NULL && strcmp(name, "locks") == 0)
			add_spot(survey, path, PART_MUTEX, semaphore);
		else
			add_spot(survey, path, PART_PATH, NULL);
	}
}

static void
look_at(Survey *survey, const Spot *spot, const ZkLockRead *read)
{
	int			contenders;

	if (read->rc == ZKLOCK_RC_NO_NODE)
		return;
	if (spot->path == survey->parent)
		zklock_flight_check(read, survey->parent, "look at");
	if (read->rc != ZKLOCK_RC_OK)
	{
		(void) add_use(survey, spot->path, NULL, 0);
		return;
	}

	switch (spot->part)
	{
		case PART_PATH:
			contenders = count_contenders(read);
			if (contenders > 0)
				(void) add_use(survey, spot->path, "queue", contenders);
			if (read->nchildren > 0)
				descend(survey, read);
			else
			{
				/* It has been counted. */
				survey->looked_at--;
				add_spot(survey, spot->path, PART_LEAF, NULL);
			}
			break;
		case PART_LEAF:
			if (read->owner != 0)
				(void) add_use(survey, spot->path,
							   zklock_recipe_mode_name(ZKLOCK_SIMPLE), 1);
			break;
		case PART_LEASES:
			spot->semaphore->contenders += read->nchildren;
			break;
		case PART_MUTEX:
			spot->semaphore->contenders += count_contenders(read);
			break;
	}
}

/* The next flight. */
static void
look_on(Survey *survey)
{
	List	   *spots = survey->next;
	int			n = list_length(spots);
	ZkLockRead *reads = palloc0(n * sizeof(ZkLockRead));
	int			i = 0;
	ListCell   *cell;

	foreach(cell, spots)
	{
		const Spot *spot = lfirst(cell);

		reads[i].path = spot->path;
		reads[i].kind = spot->part == PART_LEAF ? ZKLOCK_READ_NODE :
			ZKLOCK_READ_LIST;
		i++;
	}
	zklock_flight_read(reads, n);

	survey->next = NIL;
	i = 0;
	foreach(cell, spots)
	{
		CHECK_FOR_INTERRUPTS();
		look_at(survey, lfirst(cell), &reads[i++]);
	}
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
		strcmp(use->kind, zklock_recipe_mode_name(mode)) == 0;
}

/*
 * See whether everybody may write where the nodes of the uses are: the lists of the
 * nodes above them say so.
 */
static void
look_at_lists(ZkLockUse *uses, int n)
{
	ZkLockRead *reads = palloc0((2 * n + 1) * sizeof(ZkLockRead));
	int			nreads = 0;
	const ZkLockRead *read = reads;

	for (int i = 0; i < n; i++)
	{
		const char *path = uses[i].path;

		if (is_of_mode(&uses[i], ZKLOCK_SEMAPHORE))
		{
			reads[nreads++].path = child_path(path, "leases");
			reads[nreads++].path = child_path(path, "locks");
		}
		else
			reads[nreads++].path = is_of_mode(&uses[i], ZKLOCK_SIMPLE) ?
				parent_path(path) : path;
	}
	for (int i = 0; i < nreads; i++)
		reads[i].kind = ZKLOCK_READ_ACL;
	zklock_flight_read(reads, nreads);

	for (int i = 0; i < n; i++)
	{
		bool		known = true;

		for (int lists = is_of_mode(&uses[i], ZKLOCK_SEMAPHORE) ? 2 : 1;
			 lists > 0; lists--, read++)
		{
			uses[i].is_open |= read->open;
			known &= read->rc == ZKLOCK_RC_OK;
		}
		uses[i].is_closed = known && !uses[i].is_open;
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
zklock_survey(const char *parent, int *n)
{
	Survey		survey = {.parent = parent};
	ZkLockUse  *uses;
	ListCell   *cell;

	zklock_flight_connect();
	add_spot(&survey, parent, PART_PATH, NULL);
	while (survey.next != NIL)
		look_on(&survey);

	uses = palloc((list_length(survey.uses) + 1) * sizeof(ZkLockUse));
	*n = 0;
	foreach(cell, survey.uses)
	{
		const ZkLockUse *use = lfirst(cell);

		/* A semaphore that nobody uses is none. */
		if (use->kind == NULL || use->contenders > 0)
			uses[(*n)++] = *use;
	}
	qsort(uses, *n, sizeof(ZkLockUse), compare_uses);
	look_at_lists(uses, *n);
	return uses;
}
