/*-------------------------------------------------------------------------
 *
 * hash.c
 *	  A process's own hash tables.  See backend.h.
 *
 * A table is one list, in the order in which elements were entered, so that a scan
 * does not depend on addresses.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shim/backend.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* Signatures are those of PostgreSQL. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

typedef struct Element
{
	struct Element *next;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} Element;

struct HTAB
{
	HASHCTL		ctl;
	MemoryContext context;
	Element    *first;
	Element   **last;			/* the link at the end */
	long		n;
};

HTAB *
#if PG_VERSION_NUM >= 140000
hash_create(const char *name, long n, const HASHCTL *ctl, int flags)
#else
hash_create(const char *name, long n, HASHCTL *ctl, int flags)
#endif
{
	MemoryContext context = (flags & HASH_CONTEXT) ? ctl->hcxt : TopMemoryContext;
	HTAB	   *table = MemoryContextAlloc(context, sizeof(HTAB));

	table->ctl = *ctl;
	if (!(flags & HASH_COMPARE))
		table->ctl.match = memcmp;
	table->context = context;
	table->first = NULL;
	table->last = &table->first;
	table->n = 0;
	return table;
}

void *
hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	Element   **link = &table->first;
	Element    *element;

	shim_point();
	while (*link != NULL &&
		   table->ctl.match((*link)->data, key, table->ctl.keysize) != 0)
		link = &(*link)->next;
	element = *link;
	if (found != NULL)
		*found = element != NULL;
	if (element != NULL && action == HASH_REMOVE)
	{
		*link = element->next;
		if (*link == NULL)
			table->last = link;
		table->n--;

		/* dynahash leaves it to the next one, as it is. */
		pfree(element);
		return key == NULL ? NULL : unconstify(void *, key);
	}
	if (element == NULL && action == HASH_ENTER)
	{
		element = MemoryContextAlloc(table->context, offsetof(Element, data) +
									 table->ctl.entrysize);
		element->next = NULL;
		memcpy(element->data, key, table->ctl.keysize);
		*table->last = element;
		table->last = &element->next;
		table->n++;
	}
	return element != NULL ? element->data : NULL;
}

long
hash_get_num_entries(HTAB *table)
{
	return table->n;
}

/* The element that was returned last may be removed meanwhile. */
void
hash_seq_init(HASH_SEQ_STATUS *status, HTAB *table)
{
	status->hashp = table;
	status->curEntry = (void *) table->first;
}

void *
hash_seq_search(HASH_SEQ_STATUS *status)
{
	Element    *element = (Element *) status->curEntry;

	if (element == NULL)
		return NULL;
	status->curEntry = (void *) element->next;
	return element->data;
}

void
hash_seq_term(HASH_SEQ_STATUS *status)
{
}
